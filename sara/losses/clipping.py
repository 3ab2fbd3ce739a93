"""The clipped policy-gradient loss of tokens: a pure function of log-probabilities and advantages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Clipping:
    """Bounds of the clipped objective.

    low    the ratio is clipped below at 1 - low
    high   the ratio is clipped above at 1 + high ("clip higher", DAPO, Yu et al. 2025, sec. 3.1)
    dual   with a negative advantage A the loss is at most dual * -A (Ye et al. 2020, eq. 5); None for no bound
    """

    low: float
    high: float
    dual: float | None


MAX_LOG_RATIO = 20.0
"""A ratio of exp(20) is beyond any bound; that of a greater gap would overflow, and infinity times 0 is no number."""


class PolicyLoss(NamedTuple):
    """Losses (T,), and which bound made a token's gradient zero: (T,) bool each, no token in two of them."""

    losses: Tensor
    is_low: Tensor
    is_high: Tensor
    is_dual: Tensor

    @property
    def is_clipped(self) -> Tensor:
        return self.is_low | self.is_high | self.is_dual


def clipped_policy_loss(
    policy_logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clipping: Clipping
) -> PolicyLoss:
    """Loss of each token, and whether a bound made its gradient zero.

    max(-r A, -clip(r, 1 - low, 1 + high) A) with r = exp(policy - old) (PPO, Schulman et al. 2017, eq. 7).

    policy_logprobs   (T,) float32, with gradient
    old_logprobs      (T,) float32, without gradient
    advantages        (T,) float32
    """
    ratio = torch.exp((policy_logprobs - old_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
    unclipped = -ratio * advantages
    clipped = -ratio.clamp(1 - clipping.low, 1 + clipping.high) * advantages
    losses = torch.maximum(unclipped, clipped)
    is_clipped, is_punished = clipped > unclipped, advantages < 0
    is_dual = torch.zeros_like(is_clipped)
    if clipping.dual is not None:
        bound = -clipping.dual * advantages
        is_dual = is_punished & (losses > bound)
        losses = torch.where(is_dual, bound, losses)
    return PolicyLoss(losses, is_clipped & is_punished & ~is_dual, is_clipped & ~is_punished, is_dual)
