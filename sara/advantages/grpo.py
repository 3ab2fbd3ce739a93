"""GRPO: the reward among its group's, in standard deviations."""

from __future__ import annotations

import numpy as np

from sara.advantages.base import Array, Discounts, Estimates, Estimator, ScoredRollouts, per_token
from sara.advantages.groups import Groups


def grpo_advantages(rewards: Array, group_ids: Array) -> Array:
    """Reward minus group mean, over the group's population standard deviation (GRPO, Shao et al. 2024, sec. 4.1.2).

    rewards     (N,) float64
    group_ids   (N,) integers, any order
    returns     (N,) float64; 0 for a saturated group and for a group of one
    """
    groups = Groups(rewards, group_ids)
    deviation = np.where(groups.is_mixed, groups.deviation[groups.index], 1.0)
    return np.where(groups.is_mixed, groups.centered / deviation, 0.0)


def _estimate(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    return per_token(grpo_advantages(scored.whole_rewards, scored.group_ids), scored)


GRPO = Estimator(_estimate, is_group_based=True)
