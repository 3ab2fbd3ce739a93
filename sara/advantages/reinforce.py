"""REINFORCE++ and its baseline variant: returns whitened over all tokens of the step."""

from __future__ import annotations

import numpy as np

from sara.advantages.base import Array, Discounts, Estimates, Estimator, ScoredRollouts
from sara.advantages.groups import Groups
from sara.advantages.whitening import whiten


def returns_to_go(step_rewards: Array, lengths: Array, gamma: float) -> Array:
    """Discounted sum of the rewards from each token on: G_t = r_t + gamma G_(t+1), 0 past a rollout's end.

    step_rewards   (T,) float64, rollout after rollout
    lengths        (N,) int64 >= 0, which sum to T
    returns        (T,) float64
    """
    table, is_token = ragged_table(step_rewards, lengths)  # (N, L) each
    for t in range(table.shape[1] - 2, -1, -1):
        table[:, t] += gamma * table[:, t + 1]
    return table[is_token]


def ragged_table(values: Array, lengths: Array) -> tuple[Array, Array]:
    """Values (T,) as rows of a table (N, L) with zeros behind each rollout's end, and where its tokens are."""
    is_token = np.arange(lengths.max(initial=0)) < np.asarray(lengths)[:, None]
    table = np.zeros(is_token.shape)
    table[is_token] = values
    return table, is_token


def _global(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    """REINFORCE++ (Hu 2025, eq. 7 and 8): returns with the tokens' KL inside, whitened; no group is needed."""
    return Estimates(whiten(returns_to_go(scored.step_rewards, scored.lengths, discounts.gamma)))


def _baseline(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    """REINFORCE++-baseline (Hu 2025, eq. 9): reward minus the group's mean, whitened over the tokens that teach.

    Tokens of saturated groups would all get minus the whitening's mean; they are left out of it and get exactly 0,
    so that a batch teaches the same whether its saturated groups were thrown away or not.
    """
    groups = Groups(scored.whole_rewards, scored.group_ids)
    centered = groups.centered if scored.beliefs is None else groups.rewards - scored.beliefs
    of_tokens = np.repeat(centered, scored.lengths)
    teaches = np.repeat(scored.is_effective, scored.lengths)
    advantages = np.zeros_like(of_tokens)
    advantages[teaches] = whiten(of_tokens[teaches])
    return Estimates(advantages)


REINFORCE_PP = Estimator(_global, is_group_based=False)
REINFORCE_PP_BASELINE = Estimator(_baseline, is_group_based=True, takes_beliefs=True)
