"""The loss of a micro-batch: policy, KL, entropy and value parts of its tokens, and the figures that go with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sara.config import LearnerConfig
from sara.losses import DIVERGENCES, Clipping, clipped_policy_loss, clipped_value_loss, kl_k3, truncated_weights


@dataclass(frozen=True)
class TokenBatch:
    """What a loss is made of; all (M,), over the trained tokens of a micro-batch.

    policy_logprobs, entropy   with gradient
    old_logprobs               the learner's, before the step's first update
    behavior_logprobs          the engine's
    reference_logprobs         None without a reference
    weights                    of each token in the batch's loss
    values                     with gradient; old_values and returns go with them; None without a value function
    """

    policy_logprobs: Tensor
    entropy: Tensor
    old_logprobs: Tensor
    behavior_logprobs: Tensor
    advantages: Tensor
    weights: Tensor
    reference_logprobs: Tensor | None = None
    values: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None


class Objective:
    """Weighted sum over tokens of policy loss + kl_coef * KL - entropy_coef * entropy, and of the value loss.

    tis_cap   cap of the importance weights; None where engine and learner agree by construction
    """

    def __init__(self, config: LearnerConfig, tis_cap: float | None) -> None:
        self.clipping = Clipping(config.clip_low, config.clip_high, config.dual_clip)
        self.value_clip = config.value_clip
        self.kl_coef = config.kl_coef if config.kl_in == "loss" else 0.0
        self.divergence = DIVERGENCES[config.kl_estimator]
        self.entropy_coef = config.entropy_coef
        self.tis_cap = tis_cap

    @property
    def is_more_than_policy(self) -> bool:
        """Whether tokens without an advantage have a gradient too."""
        return bool(self.kl_coef or self.entropy_coef)

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """The loss to differentiate; sums over tokens; and maxima over tokens."""
        policy = clipped_policy_loss(tokens.policy_logprobs, tokens.old_logprobs, tokens.advantages, self.clipping)
        losses, sums = policy.losses, {}
        gap = tokens.old_logprobs - tokens.behavior_logprobs
        if self.tis_cap is not None:
            losses = losses * truncated_weights(tokens.old_logprobs, tokens.behavior_logprobs, self.tis_cap)
            sums["tis/truncated"] = (gap.exp() > self.tis_cap).sum()
        total = (tokens.weights * losses).sum()
        sums["loss"] = total.detach()
        if tokens.reference_logprobs is not None:
            divergence = self.divergence(tokens.policy_logprobs, tokens.reference_logprobs)
            total, sums["loss/kl"] = _add(total, self.kl_coef * divergence, tokens.weights)
            sums["kl_reference"] = kl_k3(tokens.policy_logprobs, tokens.reference_logprobs).sum()
        if self.entropy_coef:
            total, sums["loss/entropy"] = _add(total, -self.entropy_coef * tokens.entropy, tokens.weights)
        if tokens.values is not None:
            value_losses = clipped_value_loss(tokens.values, tokens.old_values, tokens.returns, self.value_clip)
            total, sums["loss/value"] = _add(total, value_losses, tokens.weights)
        with torch.no_grad():
            log_ratio = tokens.policy_logprobs - tokens.old_logprobs
            sums |= {
                "clip_fraction": policy.is_clipped.sum(),
                "clip/low": policy.is_low.sum(),
                "clip/high": policy.is_high.sum(),
                "clip/dual": policy.is_dual.sum(),
                "entropy": tokens.entropy.sum(),
                "kl_behavior": kl_k3(tokens.behavior_logprobs, tokens.old_logprobs).sum(),
                "mismatch/abs_mean": gap.abs().sum(),
            }
            maxima = {"ratio_max": log_ratio.max().exp(), "mismatch/ratio_max": gap.abs().max().exp()}
        return total, {name: value.detach() for name, value in sums.items()}, maxima


def _add(total: Tensor, losses: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The total with a part more, and the part's own value."""
    part = (weights * losses).sum()
    return total + part, part.detach()
