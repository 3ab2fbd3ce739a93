"""Estimates of KL(policy || reference) on tokens that the policy sampled (Schulman 2020): k1, k2 and k3."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sara.losses.clipping import MAX_LOG_RATIO


def kl_k1(policy_logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """log policy - log reference: unbiased, of either sign; as a loss its expected gradient is 0."""
    return policy_logprobs - reference_logprobs


def kl_k2(policy_logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Half the square of k1, >= 0: a biased value, but as a loss its gradient is that of the KL."""
    return (policy_logprobs - reference_logprobs) ** 2 / 2


def kl_k3(policy_logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """exp(-k1) - 1 + k1, the exponential bounded: unbiased, >= 0; what GRPO adds (Shao et al. 2024, eq. 4)."""
    difference = reference_logprobs - policy_logprobs
    return torch.exp(difference.clamp(max=MAX_LOG_RATIO)) - 1 - difference


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}
