"""Whitening: mean 0 and deviation 1 over all trained tokens of a step."""

from __future__ import annotations

import numpy as np

from sara.advantages.base import Array, are_equal


def whiten(values: Array) -> Array:
    """Values minus their mean, over their population standard deviation; exactly 0 if all are equal, up to rounding.

    values, returns   (T,) float64, trained tokens only: padding and masked tokens must not be among them
    """
    if not values.size or are_equal(values.min(), values.max()):
        return np.zeros_like(values)
    centered = values - values.mean()
    return centered / np.sqrt(np.mean(centered**2))
