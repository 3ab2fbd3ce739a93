"""Dr.GRPO: the reward minus its group's mean, and nothing more."""

from __future__ import annotations

import numpy as np

from sara.advantages.base import Array, Discounts, Estimates, Estimator, ScoredRollouts, per_token
from sara.advantages.groups import Groups


def mean_only_advantages(rewards: Array, group_ids: Array) -> Array:
    """Reward minus group mean, not divided by the deviation (Dr.GRPO, Liu et al. 2025, sec. 3.2).

    rewards     (N,) float64
    group_ids   (N,) integers, any order
    returns     (N,) float64; 0 for a saturated group and for a group of one
    """
    groups = Groups(rewards, group_ids)
    return np.where(groups.is_mixed, groups.centered, 0.0)


def belief_advantages(rewards: Array, group_ids: Array, beliefs: Array) -> Array:
    """Reward minus what was believed of its prompt before the step: no rollout is part of its own baseline.

    rewards, beliefs   (N,) float64
    returns            (N,) float64; 0 for a saturated group and for a group of one
    """
    groups = Groups(rewards, group_ids)
    return np.where(groups.is_mixed, groups.rewards - beliefs, 0.0)


def _estimate(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    rewards = scored.whole_rewards
    if scored.beliefs is not None:
        return per_token(belief_advantages(rewards, scored.group_ids, scored.beliefs), scored)
    return per_token(mean_only_advantages(rewards, scored.group_ids), scored)


DR_GRPO = Estimator(_estimate, is_group_based=True, takes_beliefs=True)
