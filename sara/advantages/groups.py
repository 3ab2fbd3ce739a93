"""Statistics of ragged groups: by id, in any order, never by stride or reshape."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sara.advantages.base import Array, are_equal, require_finite


class Groups:
    """Rewards (N,) by group; G groups.

    index   (N,) 0..G-1
    size    (G,)

    Raises ValueError for a reward that is no finite number: its group would pass for one that is saturated.
    """

    def __init__(self, rewards: Array, group_ids: Array) -> None:
        self.rewards = np.asarray(rewards, dtype=np.float64)
        _, self.index = np.unique(group_ids, return_inverse=True)
        require_finite(self.rewards, group_ids)
        self.size = np.bincount(self.index)

    @cached_property
    def centered(self) -> Array:
        """(N,) rewards minus their group's mean."""
        return self.rewards - (np.bincount(self.index, weights=self.rewards) / self.size)[self.index]

    @cached_property
    def deviation(self) -> Array:
        """(G,) population standard deviation."""
        return np.sqrt(np.bincount(self.index, weights=self.centered**2) / self.size)

    @cached_property
    def is_mixed(self) -> Array:
        """(N,) whether its group's rewards differ, by their extremes: rounding in a mean makes equal ones differ."""
        low, high = np.full(len(self.size), np.inf), np.full(len(self.size), -np.inf)
        np.minimum.at(low, self.index, self.rewards)
        np.maximum.at(high, self.index, self.rewards)
        return ~are_equal(low, high)[self.index]


def is_effective(rewards: Array, group_ids: Array) -> Array:
    """(N,) bool: whether the rewards of each rollout's group differ."""
    return Groups(rewards, group_ids).is_mixed
