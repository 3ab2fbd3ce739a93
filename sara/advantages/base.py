"""The contract of advantage estimators: how much better was each token of a batch than expected?

Owns what an estimator is given and gives back. Pure functions of arrays: numpy alone, never torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Array = np.ndarray

_ROUNDING = 1e-12  # of the larger of 1 and the values themselves


@dataclass(frozen=True)
class ScoredRollouts:
    """The rollouts of one step, N of them with T trained tokens in all, rollout after rollout.

    rewards         (N,) float64, of whole rollouts, with what shapes them (length penalty)
    group_ids       (N,) integers, any order: the prompt of each
    lengths         (N,) int64 >= 0, trained tokens of each; 0: its reward counts for its group, it is not trained on
    is_effective    (N,) bool, whether the verifier's rewards of its group differ
    token_rewards   (T,) float64, what each token adds to the reward (minus its KL); None: nothing
    values          (T,) float64, expected return before each token; None without a value function
    beliefs         (N,) float64, success rate believed of each prompt before the step; None: the group's own mean

    Raises ValueError for a reward that is no finite number.
    """

    rewards: Array
    group_ids: Array
    lengths: Array
    is_effective: Array
    token_rewards: Array | None = None
    values: Array | None = None
    beliefs: Array | None = None

    def __post_init__(self) -> None:
        require_finite(self.rewards, self.group_ids)

    @property
    def whole_rewards(self) -> Array:
        """(N,) rewards with those of the tokens added up."""
        if self.token_rewards is None:
            return self.rewards
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return self.rewards + np.bincount(rows, weights=self.token_rewards, minlength=len(self.lengths))

    @property
    def step_rewards(self) -> Array:
        """(T,) reward at each token: the rollout's own falls to its last trained token."""
        rewards = np.zeros(int(self.lengths.sum())) if self.token_rewards is None else self.token_rewards.copy()
        is_trained = self.lengths > 0
        rewards[np.cumsum(self.lengths)[is_trained] - 1] += self.rewards[is_trained]
        return rewards


class Estimates(NamedTuple):
    """Advantages (T,) float64, and for a value function the returns (T,) float64 that it should have expected."""

    advantages: Array
    returns: Array | None = None


@dataclass(frozen=True)
class Discounts:
    """gamma: discount of later rewards; trace: lambda of GAE (0: one step ahead, 1: the whole return)."""

    gamma: float = 1.0
    trace: float = 1.0


@dataclass(frozen=True)
class Estimator:
    """A member of the family.

    estimate         advantages of a step's rollouts
    is_group_based   a saturated group gets exactly 0, and so does a group of one
    needs_values     `ScoredRollouts.values` must be given
    takes_beliefs    may measure rewards against `ScoredRollouts.beliefs` in place of the group's mean
    """

    estimate: Callable[[ScoredRollouts, Discounts], Estimates]
    is_group_based: bool
    needs_values: bool = False
    takes_beliefs: bool = False


def require_finite(rewards: Array, group_ids: Array) -> None:
    bad = np.flatnonzero(~np.isfinite(rewards))
    if bad.size:
        more = f" and {bad.size - 1} more" if bad.size > 1 else ""
        raise ValueError(f"a reward of group {group_ids[bad[0]]} is {rewards[bad[0]]}{more}; expected finite numbers")


def are_equal(low: Array, high: Array) -> Array:
    """Whether values between these two differ by no more than the rounding of what they were made of.

    Their deviation would be noise, and what is divided by it as large as any true advantage. False if one is no number.
    """
    return high - low <= _ROUNDING * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))


def per_token(advantages: Array, scored: ScoredRollouts) -> Estimates:
    """The advantage of each rollout (N,) for each of its tokens, exactly 0 where its group is saturated."""
    return Estimates(np.repeat(np.where(scored.is_effective, advantages, 0.0), scored.lengths))
