"""PPO: generalised advantage estimation over a value function."""

from __future__ import annotations

from sara.advantages.base import Array, Discounts, Estimates, Estimator, ScoredRollouts
from sara.advantages.reinforce import ragged_table
from sara.advantages.whitening import whiten


def generalised_advantages(
    step_rewards: Array, values: Array, lengths: Array, discounts: Discounts
) -> tuple[Array, Array]:
    """GAE (Schulman et al. 2016, eq. 16): A_t = d_t + gamma lambda A_(t+1), d_t = r_t + gamma V_(t+1) - V_t.

    step_rewards, values   (T,) float64, rollout after rollout; past a rollout's last token the value is 0
    lengths                (N,) int64 >= 0, which sum to T
    returns                advantages (T,) and returns A + V (T,), both before any whitening
    """
    rewards, is_token = ragged_table(step_rewards, lengths)  # (N, L)
    table, _ = ragged_table(values, lengths)
    advantages = rewards - table
    advantages[:, :-1] += discounts.gamma * table[:, 1:]
    for t in range(advantages.shape[1] - 2, -1, -1):
        advantages[:, t] += discounts.gamma * discounts.trace * advantages[:, t + 1]
    found = advantages[is_token]
    return found, found + values


def _estimate(scored: ScoredRollouts, discounts: Discounts) -> Estimates:
    assert scored.values is not None, "PPO without values"
    advantages, returns = generalised_advantages(scored.step_rewards, scored.values, scored.lengths, discounts)
    return Estimates(whiten(advantages), returns)


PPO = Estimator(_estimate, is_group_based=False, needs_values=True)
