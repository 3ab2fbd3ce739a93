"""Expected costs of stopping rules, in closed form over a population of success rates.

Owns the enumeration that simulations are checked against: what DS, SARA or any pair of stopping boundaries
spends for one effective group. Overshoot is left out, as if a batch could be any number of groups: what
batches, rounds and surplus add is the simulator's to measure (`expected_chunks` has it exactly for DS).

Pairs (f, p): a prompt is abandoned after f straight failures or p straight passes; at k nothing is cut short.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from sara.allocation import prob_effective
from sara.simulation.mixtures import RateMixture


class BoundaryPair(NamedTuple):
    """Straight failures, and straight passes, after which a prompt is abandoned; whole numbers in 1..k.

    Two numbers for the formulas here. `sara.allocation.boundaries.Boundaries`, which allocators act on, also holds the
    rounds at which they look.
    """

    fails: int
    passes: int


class Costs(NamedTuple):
    """What a stopping rule costs and yields for one opened prompt, on average over the population.

    rollouts      rollouts drawn
    tokens        tokens in them
    effective     chance that its group is committed, which with these rules is: is found to be mixed
    lost          share of the groups effective at k that were abandoned
    trained_rate  success rate of the rollouts that are trained on

    All float64 of the shape that the boundaries broadcast to.
    """

    rollouts: NDArray[np.float64]
    tokens: NDArray[np.float64]
    effective: NDArray[np.float64]
    lost: NDArray[np.float64]
    trained_rate: NDArray[np.float64]

    @property
    def rollouts_per_group(self) -> NDArray[np.float64]:
        """Rollouts for one effective group; infinite where none is ever found."""
        return _ratio(self.rollouts, self.effective)

    @property
    def tokens_per_group(self) -> NDArray[np.float64]:
        return _ratio(self.tokens, self.effective)


def fill_costs(
    mixture: RateMixture,
    k: int,
    fails: ArrayLike,
    passes: ArrayLike,
    tokens_right: float = 1.0,
    tokens_wrong: float = 1.0,
    audit_rate: float = 0.0,
) -> Costs:
    """Costs in fill mode: a mixed group is drawn up to k, so only the boundaries (f, p) matter, not the rounds.

    fails, passes  whole numbers in 1..k that broadcast together; both k is DS
    audit_rate     share of the abandoned prompts that is run on to k, and trained on if it turns out mixed

    One prompt of rate r draws N = f with chance (1-r)^f, p with chance r^p, else k. N is a stopping time, so the
    right rollouts number r E[N | r] (Wald's identity).
    """
    fails, passes = _in_group("fails", fails, k), _in_group("passes", passes, k)
    all_fail, all_pass = mixture.moment(0, fails), mixture.moment(passes, 0)  # chances to be abandoned
    right_if_fail, right_if_pass = mixture.moment(1, fails), mixture.moment(passes + 1, 0)  # E[r; abandoned]
    rollouts = k - (k - fails) * all_fail - (k - passes) * all_pass
    right = k * mixture.mean - (k - fails) * right_if_fail - (k - passes) * right_if_pass
    effective = _above_rounding(1 - all_fail - all_pass)
    sums = rollouts, right, effective, right - passes * all_pass, k * effective
    return _costs(mixture, k, _audited(mixture, k, fails, passes, sums, audit_rate), tokens_right, tokens_wrong)


def stop_costs(
    mixture: RateMixture,
    k: int,
    boundaries: BoundaryPair,
    probe: int,
    increment: int,
    tokens_right: float = 1.0,
    tokens_wrong: float = 1.0,
    audit_rate: float = 0.0,
) -> Costs:
    """Costs in stop mode: a group is trained on as it is after the round in which it turned mixed.

    Audited prompts are run on to k here too. Boundaries that are no round's end are put off to the next one, as the
    allocator would.
    """
    checks = round_ends(k, probe, increment)  # (R,)
    fails, passes = (int(checks[np.searchsorted(checks, boundary)]) for boundary in boundaries)
    before = np.append(0, checks[:-1])  # (R,) rollouts seen when each round starts
    drawn = checks - before
    fail_goes_on, pass_goes_on = before < fails, (before < passes) & (before > 0)  # n = 0 counts once
    goes_on = fail_goes_on * mixture.moment(0, before) + pass_goes_on * mixture.moment(before, 0)
    right_goes_on = fail_goes_on * mixture.moment(1, before) + pass_goes_on * mixture.moment(before + 1, 0)
    rollouts, right = (drawn * goes_on).sum(), (drawn * right_goes_on).sum()
    all_fail, all_pass = mixture.moment(0, fails), mixture.moment(passes, 0)
    effective = _above_rounding(1 - all_fail - all_pass)
    trained = rollouts - fails * all_fail - passes * all_pass
    sums = rollouts, right, effective, right - passes * all_pass, trained
    return _costs(mixture, k, _audited(mixture, k, fails, passes, sums, audit_rate), tokens_right, tokens_wrong)


def ds_costs(mixture: RateMixture, k: int, tokens_right: float = 1.0, tokens_wrong: float = 1.0) -> Costs:
    """Costs of dynamic sampling: whole groups only."""
    return fill_costs(mixture, k, k, k, tokens_right, tokens_wrong)


def threshold_boundaries(
    k: int,
    tau_low: float,
    alpha0: float = 1.0,
    beta0: float = 1.0,
    probe: int = 1,
    increment: int = 1,
) -> BoundaryPair:
    """The boundaries that a fixed threshold comes to: the first round's end at which p_eff < tau_low, or k."""
    checks = round_ends(k, probe, increment)
    after_fails = prob_effective(checks, 0, k, alpha0, beta0)
    after_passes = prob_effective(checks, checks, k, alpha0, beta0)
    is_over = checks == k
    return BoundaryPair(*(int(checks[np.argmax((p < tau_low) | is_over)]) for p in (after_fails, after_passes)))


def cheapest_pair(
    mixture: RateMixture,
    k: int,
    max_lost: float = 1.0,
    cost: Literal["rollouts", "tokens"] = "rollouts",
    tokens_right: float = 1.0,
    tokens_wrong: float = 1.0,
) -> BoundaryPair:
    """Of all boundaries in fill mode, the cheapest for each effective group, by trying every pair.

    max_lost  at most this share of the groups effective at k may be abandoned; 1 sets no limit

    Of equally cheap ones, the one that abandons latest. It is the independent check of
    `sara.allocation.boundaries.best_boundaries`, which finds the same pair from moments while a run goes on and also
    chooses the rounds, values groups otherwise and covers stop mode; nothing of it is used here.
    """
    later_first = np.arange(k, 0, -1)
    costs = fill_costs(mixture, k, later_first[:, None], later_first, tokens_right, tokens_wrong)  # (k, k)
    per_group = costs.rollouts_per_group if cost == "rollouts" else costs.tokens_per_group
    allowed = np.where(costs.lost <= max_lost + 1e-12, per_group, np.inf)
    cheapest = np.flatnonzero(allowed <= allowed.min() * (1 + 1e-12))[0]
    row, column = np.unravel_index(cheapest, allowed.shape)
    return BoundaryPair(int(later_first[row]), int(later_first[column]))


def expected_chunks(effective: float, target: int, chunk: int, max_chunks: int) -> float:
    """Chunks that DS draws, each of `chunk` groups, until `target` groups are effective or `max_chunks` are drawn.

    effective  chance that a group is effective; the population is taken to be endless
    """
    drawn = chunk * np.arange(max_chunks)  # groups drawn before each further chunk
    return float(binom.cdf(target - 1, drawn, effective).sum())


def round_ends(k: int, probe: int, increment: int) -> NDArray[np.int64]:
    """Rollouts that an unmixed prompt has after each round, (R,): probe, probe + increment, ..., k."""
    if not (1 <= probe <= k and increment >= 1):
        raise ValueError(f"probe = {probe}, increment = {increment}; expected 1 <= probe <= k = {k} and 1 <= increment")
    return np.append(np.arange(probe, k, increment), k)


def _audited(mixture, k, fails, passes, sums, audit_rate) -> tuple[NDArray[np.float64], ...]:
    """The sums of `_costs` with what audits add: the rollouts from the boundary to k, and the groups they turn up."""
    fail, fail_at_k = mixture.moment(0, fails), mixture.moment(0, k)
    passed, passed_at_k = mixture.moment(passes, 0), mixture.moment(k, 0)
    right_after_fail = (k - fails) * mixture.moment(1, fails)
    right_after_pass = (k - passes) * mixture.moment(passes + 1, 0)
    effective = fail - fail_at_k + passed - passed_at_k
    added = (
        (k - fails) * fail + (k - passes) * passed,
        right_after_fail + right_after_pass,
        effective,
        right_after_fail + passes * passed + right_after_pass - k * passed_at_k,  # of those that turn
        k * effective,
    )
    return tuple(of + audit_rate * more for of, more in zip(sums, added, strict=True))


def _costs(mixture, k, sums, tokens_right, tokens_wrong) -> Costs:
    """From the means of a prompt's rollouts, right ones, chance to be effective, right ones trained on, all trained."""
    rollouts, right, effective, trained_right, trained = sums
    tokens = tokens_right * right + tokens_wrong * (rollouts - right)
    at_k = _above_rounding(1 - mixture.moment(0, k) - mixture.moment(k, 0))
    lost = 1 - np.divide(effective, at_k, out=np.ones_like(effective), where=at_k > 0)
    trained_rate = np.divide(trained_right, trained, out=np.full_like(effective, np.nan), where=effective > 0)
    return Costs(rollouts, tokens, effective, lost, trained_rate)


def _above_rounding(chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A difference of chances that rounding left at 1e-16 where it is 0 (f = p = 1, or only saturated rates)."""
    return np.where(chance > 1e-14, chance, 0.0)


def _ratio(cost: NDArray[np.float64], effective: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(cost, effective, out=np.full(np.shape(effective), np.inf), where=effective > 0)


def _in_group(name: str, values: ArrayLike, k: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 1 or array.max() > k)):
        raise ValueError(f"{name} = {values}; expected whole numbers in 1..k = {k}")
    return array.astype(np.int64)
