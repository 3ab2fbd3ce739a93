"""RLOO: the reward minus the mean of the others of its group."""

from __future__ import annotations

import numpy as np

from sara.advantages.base import Array, Discounts, Estimates, Estimator, ScoredRollouts, per_token
from sara.advantages.groups import Groups


def leave_one_out_advantages(rewards: Array, group_ids: Array) -> Array:
    """Reward minus the mean of the *other* rollouts of its group (RLOO, Ahmadian et al. 2024, eq. 7).

    rewards     (N,) float64
    group_ids   (N,) integers, any order
    returns     (N,) float64; 0 for a saturated group and for a group of one, which has no others

    n / (n - 1) times the reward minus the group's mean: the same thing without a second sum.
    """
    groups = Groups(rewards, group_ids)
    size = groups.size[groups.index]
    return np.where(groups.is_mixed, groups.centered * size / np.maximum(size - 1, 1), 0.0)


def _estimate(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    return per_token(leave_one_out_advantages(scored.whole_rewards, scored.group_ids), scored)


RLOO = Estimator(_estimate, is_group_based=True)
