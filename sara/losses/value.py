"""The value function's loss: squared error, clipped like the policy's."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """max((V - R)^2, (V_old + clip(V - V_old, -clip, clip) - R)^2) / 2 of each token, (T,).

    values       (T,) with gradient
    old_values   (T,) before the update; `clip` bounds how far V may move from them, None for no bound
    returns      (T,) what was to be expected, not whitened

    As in PPO's reference implementation (Schulman et al. 2017, OpenAI baselines).
    """
    losses = (values - returns) ** 2
    if clip is not None:
        near = old_values + (values - old_values).clamp(-clip, clip)
        losses = torch.maximum(losses, (near - returns) ** 2)
    return losses / 2
