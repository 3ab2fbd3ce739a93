"""Advantages: how much better a rollout was than its group. Pure functions of rewards and group ids.

Groups may differ in size and stand in any order. A saturated group and a group of one get exactly 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def grpo_advantages(rewards: Array, group_ids: Array) -> Array:
    """Reward minus group mean, over the group's population standard deviation (GRPO, Shao et al. 2024, sec. 4.1.2).

    rewards     (N,) float64
    group_ids   (N,) integers, any order
    returns     (N,) float64; 0 for a saturated group and for a group of one
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    _, group = np.unique(group_ids, return_inverse=True)  # (N,) 0..G-1
    size = np.bincount(group)  # (G,)
    mean = np.bincount(group, weights=rewards) / size
    centered = rewards - mean[group]
    deviation = np.sqrt(np.bincount(group, weights=centered**2) / size)
    is_mixed = _group_extreme(np.maximum, rewards, group) > _group_extreme(np.minimum, rewards, group)  # (G,)
    return np.where(is_mixed[group], centered / np.where(is_mixed, deviation, 1.0)[group], 0.0)


def _group_extreme(extreme: np.ufunc, rewards: Array, group: Array) -> Array:
    """Largest or smallest reward of each group, (G,): rounding in a mean must not make equal rewards differ."""
    start = np.full(group.max() + 1 if len(group) else 0, -np.inf if extreme is np.maximum else np.inf)
    extreme.at(start, group, rewards)
    return start


AdvantageEstimator = Callable[[Array, Array], Array]

ADVANTAGES: dict[str, AdvantageEstimator] = {"grpo": grpo_advantages}
