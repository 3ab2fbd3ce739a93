"""Truncated importance sampling: tokens that the engine sampled, weighted as if the learner had."""

from __future__ import annotations

import torch
from torch import Tensor


def truncated_weights(old_logprobs: Tensor, behavior_logprobs: Tensor, cap: float) -> Tensor:
    """min(old / behaviour probability, cap) of each token, (T,), without gradient (Yao et al. 2025, TIS).

    old_logprobs        (T,) the learner's, before the update
    behavior_logprobs   (T,) the engine's, of the same tokens
    cap                 > 0; bounds the variance, at the price of a bias
    """
    return torch.exp(old_logprobs.detach() - behavior_logprobs).clamp(max=cap)
