"""Expectation: what a setting does to a finished group, averaged exactly over every order of its rollouts.

A group of N rollouts, S of them right, could have come in any order. The chance that its first m are all wrong is
hypergeometric, C(N-S, m) / C(N, m), and everything that is reported follows from those chances, for as many groups
at once as there are. Owns that arithmetic; the stopping points it needs are read off the real allocator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Allocator, Fate, Ledger, Limits, Outcomes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StoppingPoints:
    """What an allocator does to a prefix of equal outcomes.

    k             group size
    checkpoints   prefix lengths at which it judges, rising
    fail, passed  the checkpoint at which it abandons an all-fail and an all-pass prefix; k where it never does before
    is_filled     whether a committed group is drawn up to k
    """

    k: int
    checkpoints: tuple[int, ...]
    fail: int
    passed: int
    is_filled: bool


@dataclass(frozen=True)
class Expected:
    """Expected values for each of C groups; all (C,) float64 but `done_by`.

    drawn, right   rollouts generated, and those among them with reward 1
    kept           chance that the group is committed; every committed group is effective
    kept_drawn, kept_right  rollouts of the committed group and those right, 0 where it is not committed
    effective      chance that it is effective at k, which is when DS keeps it
    early, lost    chance that it is abandoned before k, and that it is then effective at k (falsely abandoned)
    done_by        (C, R), chance that it draws nothing after round r = 1..R
    """

    drawn: Array
    right: Array
    kept: Array
    kept_drawn: Array
    kept_right: Array
    effective: Array
    early: Array
    lost: Array
    done_by: Array


def stopping_points(allocator: Allocator) -> StoppingPoints:
    """Play an all-fail and an all-pass group through `allocator` and watch when it lets go of them."""
    ledger, limits, checkpoints = Ledger(), Limits(target=2), []
    ledger.open(np.arange(2))
    while (counts := allocator.allocate(ledger, limits)).any():
        rows, _ = ledger.issue(counts)
        ledger.record(rows, Outcomes((rows == 1).astype(np.int8), np.zeros(rows.size, dtype=np.int64)))
        ledger.rounds += 1
        allocator.judge(ledger)
        checkpoints.append(int(ledger.n.max()))
    assert list(ledger.fate) == [Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS], "saturated groups are abandoned by k"
    fail, passed = ledger.n.tolist()
    return StoppingPoints(allocator.k, tuple(checkpoints), fail, passed, _fills(allocator))


def expect(sizes: NDArray[np.int64], successes: NDArray[np.int64], points: StoppingPoints) -> Expected:
    """The expectations for groups of `sizes` rollouts, `successes` of them right, both (C,) with sizes >= k."""
    k, checkpoints = points.k, np.array(points.checkpoints)
    all_fail = _all_alike(sizes, sizes - successes, k)  # (C, k+1)
    all_pass = _all_alike(sizes, successes, k)
    fail, passed = all_fail[:, points.fail], all_pass[:, points.passed]
    if points.is_filled:
        drawn = points.fail * fail + points.passed * passed + k * (1 - fail - passed)
        right = k * successes / sizes
        right -= fail * (k - points.fail) * successes / np.maximum(sizes - points.fail, 1)
        right -= passed * (k - points.passed) * (successes - points.passed) / np.maximum(sizes - points.passed, 1)
    else:
        drawn, right = _until_mixed(sizes, successes, all_fail, all_pass, points)
    return Expected(
        drawn=drawn,
        right=right,
        kept=1 - fail - passed,
        kept_drawn=drawn - points.fail * fail - points.passed * passed,
        kept_right=right - points.passed * passed,
        effective=1 - all_fail[:, k] - all_pass[:, k],
        early=fail * (points.fail < k) + passed * (points.passed < k),
        lost=fail - all_fail[:, k] + passed - all_pass[:, k],
        done_by=_done_by(all_fail, all_pass, checkpoints, points),
    )


def _all_alike(sizes: NDArray[np.int64], alike: NDArray[np.int64], k: int) -> Array:
    """(C, k+1): chance that the first m = 0..k rollouts are all among the `alike` ones, C(alike, m) / C(size, m)."""
    drawn = np.arange(k)
    again = np.maximum(alike[:, None] - drawn, 0) / (sizes[:, None] - drawn)  # (C, k)
    return np.column_stack([np.ones(len(sizes)), np.cumprod(again, axis=1)])


def _until_mixed(
    sizes: NDArray[np.int64], successes: NDArray[np.int64], all_fail: Array, all_pass: Array, points: StoppingPoints
) -> tuple[Array, Array]:
    """Rollouts drawn, and right ones among them, when a group stops as soon as it is mixed or abandoned."""
    drawn, right, seen = np.zeros(len(sizes)), np.zeros(len(sizes)), 0
    for checkpoint in points.checkpoints:
        fails = all_fail[:, seen] * (seen < points.fail)  # still open, with nothing but failures
        passes = all_pass[:, seen] * (seen < points.passed) * (seen > 0)
        drawn += (checkpoint - seen) * (fails + passes)
        right += (checkpoint - seen) * (fails * successes + passes * (successes - seen)) / (sizes - seen)
        seen = checkpoint
    return drawn, right


def _done_by(all_fail: Array, all_pass: Array, checkpoints: NDArray[np.int64], points: StoppingPoints) -> Array:
    """(C, M+1): a group is done when it is abandoned, or committed, or one round later if it has to be filled."""
    is_open = all_fail[:, checkpoints] * (checkpoints < points.fail)
    is_open = is_open + all_pass[:, checkpoints] * (checkpoints < points.passed)
    mixed = 1 - all_fail[:, np.minimum(checkpoints, points.fail)] - all_pass[:, np.minimum(checkpoints, points.passed)]
    just_mixed = np.diff(mixed, axis=1, prepend=0.0)
    is_filling = just_mixed * (points.is_filled & (checkpoints < points.k))
    return np.column_stack([1 - is_open - is_filling, np.ones(len(all_fail))])


def _fills(allocator: Allocator) -> bool:
    """Whether a committed group of two rollouts is given more."""
    ledger = Ledger()
    ledger.open(np.arange(1))
    rows, _ = ledger.issue(np.array([2]))
    ledger.record(rows, Outcomes(np.array([1, 0], dtype=np.int8), np.zeros(2, dtype=np.int64)))
    ledger.fate[:] = Fate.COMMITTED
    return bool(allocator.allocate(ledger, Limits(target=1)).any())
