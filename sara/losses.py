"""Policy losses over tokens: pure functions of log-probabilities and advantages.

All take flat tensors over the trained tokens (T,), whatever rollouts they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def clipped_policy_loss(
    policy_logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clipping: Clipping
) -> tuple[Tensor, Tensor]:
    """Loss of each token, and whether a bound made its gradient zero.

    max(-r A, -clip(r, 1 - low, 1 + high) A) with r = exp(policy - old) (PPO, Schulman et al. 2017, eq. 7).

    policy_logprobs   (T,) float32, with gradient
    old_logprobs      (T,) float32, without gradient
    advantages        (T,) float32
    returns           losses (T,) float32, is_clipped (T,) bool
    """
    ratio = torch.exp(policy_logprobs - old_logprobs)
    unclipped = -ratio * advantages
    clipped = -ratio.clamp(1 - clipping.low, 1 + clipping.high) * advantages
    losses = torch.maximum(unclipped, clipped)
    is_clipped = clipped > unclipped
    if clipping.dual is not None:
        bound = -clipping.dual * advantages
        is_beyond = (advantages < 0) & (losses > bound)
        losses = torch.where(is_beyond, bound, losses)
        is_clipped = is_clipped | is_beyond
    return losses, is_clipped


def kl_k3(policy_logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Estimate of KL(policy || reference) on tokens sampled from the policy, >= 0 (Schulman 2020, estimator k3)."""
    difference = reference_logprobs - policy_logprobs
    return torch.exp(difference) - 1 - difference
