"""The best place to give a saturated prompt up, for a known prior over success rates.

Owns the renewal-reward problem behind `tau_low = "auto"`: prompts are opened one after another, each brings
value and costs rollouts or tokens, and the boundaries that maximise value per unit cost are wanted. A mixed
prefix always commits, so a policy is no more than two numbers, after how many failures and after how many
successes to abandon; all pairs are evaluated, which is exact (the tests prove it against dynamic programming
over every (n, s)). Never learns, never sees a prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sara.allocation.evidence import Evidence
from sara.allocation.moments import RateMoments

Value = Literal["groups", "signal"]
OnCommit = Literal["fill", "stop"]
Lengths = tuple[float, float]
Parts = tuple[NDArray[np.float64], NDArray[np.float64]]

_MAX_CHOICES = 64  # values of probe and of increment that "auto" tries: all of them up to k = 64
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Objective:
    """What boundaries are chosen for.

    value              "groups": the number of effective groups; "signal": the sum of s/n (1 - s/n) over them, which
                       the paper's bound on the gradient's norm grows with
    on_commit          "fill" or "stop", as in `SequentialAllocator`
    max_false_abandon  most of the effective groups that abandoning may lose, as a share in [0, 1]
    indifference       among pairs whose value per cost is within this share of the best, the one that loses the
                       fewest effective groups is taken
    max_rounds         most rounds that one prompt may take, its fill included, where the pace is to be chosen
    """

    value: Value = "groups"
    on_commit: OnCommit = "fill"
    max_false_abandon: float = 1.0
    indifference: float = 0.0
    max_rounds: int = 3


class Boundaries(NamedTuple):
    """When to abandon and how fast to look.

    all_fail, all_pass  abandon after this many failures (successes) and nothing else; k: never before k
    probe, increment    rollouts of the first round and of each later one
    """

    all_fail: int
    all_pass: int
    probe: int
    increment: int

    def at_looks(self, k: int) -> Boundaries:
        """The same, each boundary moved on to where the pace next looks: there it takes effect."""
        looks = np.minimum(np.arange(self.probe, k + self.increment, self.increment), k)
        reached = (int(looks[np.searchsorted(looks, boundary)]) for boundary in self[:2])
        return Boundaries(*reached, self.probe, self.increment)


class Appraisal(NamedTuple):
    """What boundaries bring and cost for each prompt opened, and the share of the effective groups that they lose."""

    value: float
    cost: float
    lost_share: float


def best_boundaries(
    moments: RateMoments,
    objective: Objective = Objective(),
    probe: int | None = None,
    increment: int | None = None,
    lengths: Lengths = (1.0, 1.0),
    evidence: Evidence | None = None,
) -> Boundaries:
    """The boundaries, and the pace where it is left open, with the most value per unit cost.

    moments           of the prior over success rates
    probe, increment  the pace: prompts can be abandoned after probe, probe + increment, ... rollouts only;
                      None: chosen too, the slowest to look among equals, within `objective.max_rounds`. Where
                      nothing is abandoned and both are open, the first look is half-way all the same: groups
                      beyond the batch are then dropped before they are filled (measured for uniform rates at
                      k = 8 to 32: 1 to 4% fewer rollouts, for one more round)
    lengths           cost of a right and of a wrong rollout; (1, 1) counts rollouts
    evidence          what was observed, where the prior was learned: groups are lost only by plans that by evidence
                      too, whatever the prior says, keep to the cap and bring more for their cost than the best that
                      loses none. None: the prior is known
    """
    plans = _Plans(moments, objective, probe, increment, lengths)
    near = np.flatnonzero(plans.is_near_best(evidence))
    m, f, p = np.unravel_index(near, plans.lost.shape)
    fewest_lost = np.round(plans.lost.ravel()[near], 12)  # equal sums may differ by rounding
    order = np.lexsort((-plans.increment[m], -plans.probe[m], plans.rounds.ravel()[near], fewest_lost))
    m, f, p = m[order[0]], f[order[0]], p[order[0]]
    looks, k = plans.looks[m], moments.k
    best = Boundaries(int(looks[f]), int(looks[p]), int(plans.probe[m]), int(plans.increment[m]))
    has_one_look = probe is None and increment is None and best.probe == k
    return best._replace(probe=(k + 1) // 2) if has_one_look else best


def appraise(
    boundaries: Boundaries,
    moments: RateMoments,
    objective: Objective = Objective(),
    lengths: Lengths = (1.0, 1.0),
) -> Appraisal:
    """Exact expectations under the prior of `moments`, whatever the boundaries were chosen by."""
    at_looks = boundaries.at_looks(moments.k)
    plans = _Plans(moments, objective, at_looks.probe, at_looks.increment, lengths)
    f, p = np.searchsorted(plans.looks[0], at_looks[:2])
    lost = plans.lost[0, f, p] / moments.effective if moments.effective > 0 else 0.0
    return Appraisal(float(plans.value[0, f, p]), float(plans.cost[0, f, p]), float(lost))


class _Plans:
    """Every plan: M paces, and for each the look (L of them) at which all-fail and all-pass prefixes are abandoned.

    probe, increment  (M,) int64
    looks             (M, L) int64, rollouts seen at each look; padded with k
    value, cost, lost (M, L, L) float64, for each prompt opened, [pace, all-fail, all-pass]; `lost` effective groups
    rounds            (M, L, L) int64, most rounds that one prompt takes
    """

    def __init__(
        self,
        moments: RateMoments,
        objective: Objective,
        probe: int | None,
        increment: int | None,
        lengths: Lengths,
    ) -> None:
        self.k, self.objective, self.lengths = moments.k, objective, lengths
        self._pace = probe, increment
        self.is_paced = probe is not None and increment is not None
        self.probe, self.increment, self.looks = self._paces(probe, increment)
        value, cost = self._of_a_fresh_prompt(moments)  # (M,) each
        sides = [self._of_a_side(moments, side) for side in (0, 1)]
        self.value, self.cost, self.lost = (_outer_sum(*pair) for pair in zip(*sides, strict=True))
        self.value += value[:, None, None]
        self.cost += cost[:, None, None]
        self.rounds = self._count_rounds()
        self._most_lost = objective.max_false_abandon * moments.effective + _ROUNDING

    def is_near_best(self, evidence: Evidence | None) -> NDArray[np.bool_]:
        """(M, L, L) bool: the plans that are allowed and, up to the indifference, as good as the best of them."""
        is_first = np.diff(self.looks, axis=1, prepend=0) > 0  # (M, L): not padding
        is_allowed = is_first[:, :, None] & is_first[:, None, :]
        if not self.is_paced:
            is_allowed &= self.rounds <= self.objective.max_rounds
        is_allowed &= self.is_within_cap if evidence is None else self.is_lossless | self._is_evident(evidence)
        rate = self.value / self.cost
        best = rate[is_allowed].max()
        return is_allowed & (rate >= best * (1 - self.objective.indifference) - _ROUNDING * abs(best))

    @property
    def is_within_cap(self) -> NDArray[np.bool_]:
        """(M, L, L) bool: the plans that lose no more groups than they may."""
        return self.lost <= self._most_lost

    @property
    def is_lossless(self) -> NDArray[np.bool_]:
        """(M, L, L) bool: the plans that never abandon before k."""
        return np.minimum(self.looks[:, :, None], self.looks[:, None, :]) == self.k

    def gains(self, deviations: RateMoments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(M, L, L) each: the log of each plan's value per cost over the best lossless one's, and its standard error.

        With v and c the relative deviations of value and cost, the error is that of (v - c) - (v0 - c0).
        """
        value, cost = np.maximum(self.value, _ROUNDING), self.cost
        rate = value / cost
        base = np.unravel_index(np.argmax(np.where(self.is_lossless, rate, 0.0)), rate.shape)
        values, costs = self._deviate(deviations)  # of value and of cost, each a part of all-fail and one of all-pass
        at_base = _at(values, base) / value[base] - _at(costs, base) / cost[base]  # (D,)
        variance = _dot(values, values) / value**2 + _dot(costs, costs) / cost**2 + at_base @ at_base
        variance -= 2 * (_dot(values, costs) / cost + _along(values, at_base)) / value
        variance += 2 * _along(costs, at_base) / cost
        return np.log(rate / rate[base]), np.sqrt(np.maximum(variance, 0.0))

    def _is_evident(self, evidence: Evidence) -> NDArray[np.bool_]:
        """(M, L, L) bool: as observed, the plan is within the cap, and its gain as many errors above 0 as demanded."""
        is_any_pace = self.objective.on_commit == "fill"  # then the pace changes neither value nor cost
        observed = _Plans(evidence.moments, self.objective, *((1, 1) if is_any_pace else self._pace), self.lengths)
        gain, error = observed.gains(evidence.deviations)
        is_evident = observed.is_within_cap & (gain > evidence.demand * error)
        return is_evident[0][self.looks[:, :, None] - 1, self.looks[:, None, :] - 1] if is_any_pace else is_evident

    def _deviate(self, deviations: RateMoments) -> tuple[Parts, Parts]:
        """How value and cost deviate, each a (D, M, L) of all-fail, with the fresh prompt's, and one of all-pass."""
        nothing = RateMoments(*np.zeros((2, self.k + 3)))
        fresh = zip(self._of_a_fresh_prompt(deviations), self._of_a_fresh_prompt(nothing), strict=True)
        sides = zip(*(self._of_a_side(deviations, side)[:2] for side in (0, 1)), strict=True)
        return tuple(
            (fails + (of - constant)[..., None], passes)
            for (of, constant), (fails, passes) in zip(fresh, sides, strict=True)
        )

    def _paces(self, probe: int | None, increment: int | None) -> tuple[NDArray[np.int64], ...]:
        choices = np.unique(np.rint(np.geomspace(1, self.k, _MAX_CHOICES)).astype(np.int64))
        choices = np.arange(1, self.k + 1) if self.k <= _MAX_CHOICES else choices
        probes = choices if probe is None else np.array([probe])
        increments = choices if increment is None else np.array([increment])
        probes, increments = (grid.ravel() for grid in np.meshgrid(probes, increments, indexing="ij"))
        num_looks = 1 + -(-(self.k - probes.min()) // increments.min())
        if not self.is_paced:
            num_looks = min(num_looks, self.objective.max_rounds)
        looks = np.minimum(probes[:, None] + increments[:, None] * np.arange(num_looks), self.k)
        return probes, increments, looks

    def _of_a_fresh_prompt(self, moments: RateMoments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Value and cost (M,) up to the first look in stop mode, up to k without abandonment in fill mode."""
        seen = np.full(len(self.probe), self.k) if self.objective.on_commit == "fill" else self.probe
        right = moments.all_pass[..., 1, None]
        cost = seen * (right * self.lengths[0] + (1 - right) * self.lengths[1])
        if self.objective.value == "groups":
            return 1 - moments.all_fail[..., seen] - moments.all_pass[..., seen], cost
        return (right - moments.all_pass[..., 2, None]) * (1 - 1 / seen), cost  # E[r (1-r)] (n-1) / n

    def _of_a_side(self, moments: RateMoments, side: int) -> tuple[NDArray[np.float64], ...]:
        """What abandoning at each look, on one side, adds to value and cost, and the groups it loses; (M, L) each.

        In fill mode that is minus what going on to k would have brought and cost; in stop mode it is what the looks
        between the first and this one bring and cost.
        """
        chances = moments[side]
        lost = chances[..., self.looks] - chances[..., self.k, None, None]
        if self.objective.on_commit == "fill":
            value, cost = self._between(chances, side, self.looks, np.full_like(self.looks, self.k))
            return -value, -cost, lost
        value, cost = self._between(chances, side, self.looks[:, :-1], self.looks[:, 1:])
        return _running_sum(value), _running_sum(cost), lost

    def _between(
        self, chances: NDArray[np.float64], side: int, n: NDArray[np.int64], after: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected value and cost, of a fresh prompt, of drawing `after - n` more for a prefix of n equal outcomes.

        The signal of s turned out of m more rollouts, n + m = N, is s/N (1 - s/N); with t the chance of a turn its
        mean is  m t / N (1 - 1/N) - m (m-1) t^2 / N^2.
        """
        m = after - n
        turns = chances[..., n] - chances[..., n + 1]  # E[stays^n turns]
        if self.objective.value == "groups":
            value = chances[..., n] - chances[..., after]
        else:
            twice = turns - (chances[..., n + 1] - chances[..., n + 2])  # E[stays^n turns^2]
            value = m * turns / after * (1 - 1 / after) - m * (m - 1) * twice / after**2
        turned, stayed = self.lengths if side == 0 else self.lengths[::-1]
        return value, m * (turns * turned + chances[..., n + 1] * stayed)

    def _count_rounds(self) -> NDArray[np.int64]:
        last = np.maximum.outer(*[np.arange(1, self.looks.shape[1] + 1)] * 2)  # (L, L)
        if self.objective.on_commit == "stop":
            return np.broadcast_to(last, self.lost.shape)
        needs_fill = np.maximum(self.looks[:, :, None], self.looks[:, None, :]) < self.k
        return last + needs_fill


def _running_sum(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., L) sums of the first 0, 1, ... L-1 columns of `steps` (..., L-1)."""
    return np.cumsum(np.concatenate([np.zeros((*steps.shape[:-1], 1)), steps], axis=-1), axis=-1)


def _outer_sum(fails: NDArray[np.float64], passes: NDArray[np.float64]) -> NDArray[np.float64]:
    return fails[:, :, None] + passes[:, None, :]  # (M, L, L)


def _at(parts: Parts, plan: tuple[np.intp, ...]) -> NDArray[np.float64]:
    """(D,): the deviations of one plan."""
    fails, passes = parts
    m, f, p = plan
    return fails[:, m, f] + passes[:, m, p]


def _dot(left: Parts, right: Parts) -> NDArray[np.float64]:
    """(M, L, L): of every plan, the sum over D of the products of its deviations in `left` and in `right`."""
    own = [np.einsum("dml,dml->ml", *pair) for pair in zip(left, right, strict=True)]
    (left_fails, left_passes), (right_fails, right_passes) = (
        [np.ascontiguousarray(part.transpose(1, 2, 0)) for part in parts] for parts in (left, right)
    )  # (M, L, D); contiguous, or the products of many small matrices take ten times as long
    across = left_fails @ right_passes.swapaxes(1, 2) + right_fails @ left_passes.swapaxes(1, 2)
    return _outer_sum(*own) + across


def _along(parts: Parts, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """(M, L, L): the sums over D of the products of each plan's deviations and `direction` (D,)."""
    return _outer_sum(*(np.tensordot(direction, part, axes=1) for part in parts))
