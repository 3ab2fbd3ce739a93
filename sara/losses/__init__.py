"""Losses over tokens: pure functions, one file for each idea. All take flat tensors over the trained tokens (T,)."""

from sara.losses.aggregation import AGGREGATIONS, token_weights
from sara.losses.clipping import Clipping, PolicyLoss, clipped_policy_loss
from sara.losses.divergence import DIVERGENCES, kl_k1, kl_k2, kl_k3
from sara.losses.importance import truncated_weights
from sara.losses.value import clipped_value_loss

__all__ = [
    "AGGREGATIONS",
    "DIVERGENCES",
    "Clipping",
    "PolicyLoss",
    "clipped_policy_loss",
    "clipped_value_loss",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "token_weights",
    "truncated_weights",
]
