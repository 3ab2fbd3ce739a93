"""Sums over the groups of a log, and their bootstrap.

Owns the cells (groups of equal size and equal successes fare alike, so a million groups are a few dozen cells) and
the resampling by prompt. Knows nothing of strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from sara.replay.expectation import Expected
from sara.replay.grouplog import GroupLog
from sara.seeds import step_rng

Array = NDArray[np.float64]
MAX_BUCKETS = 2000
MIN_PROMPTS = 10  # fewer give no interval: a handful of prompts says nothing about others


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95% interval; the ends are None where there are too few prompts to say."""

    value: float
    low: float | None = None
    high: float | None = None


class CellSums:
    """The groups of a log that have at least k rollouts, as counts by cell, by bucket of prompts and by step.

    Intervals resample prompts with all their groups, since groups of one prompt are alike. More than MAX_BUCKETS
    prompts are dealt at random into that many buckets, which are resampled as wholes: the sums of buckets vary as
    the sums of prompts do, and the interval's width is known to within 2%.

    sizes, successes  (C,) int64, the cells
    """

    def __init__(self, log: GroupLog, k: int, resamples: int, seed: int) -> None:
        usable = np.flatnonzero(log.sizes >= k)
        if not usable.size:
            raise ValueError(f"k = {k}; expected at most {log.sizes.max()}, the size of the largest group in the log")
        kinds = np.stack([log.sizes[usable], log.successes[usable]])
        (self.sizes, self.successes), cell = np.unique(kinds, axis=1, return_inverse=True)
        self.num_groups, self.has_lengths = usable.size, log.lengths is not None
        prompts, prompt = np.unique(log.prompts[usable], return_inverse=True)
        self.num_prompts, buckets = prompts.size, min(prompts.size, MAX_BUCKETS)
        rng = step_rng(seed, k, "replay: bootstrap")
        bucket = (rng.permutation(prompts.size) % buckets)[prompt]
        steps, step = np.unique(log.steps[usable], return_inverse=True)
        self._by_bucket = _table(bucket, cell, np.ones(usable.size), buckets, self.sizes.size)
        self._by_step = _table(step, cell, np.ones(usable.size), steps.size, self.sizes.size)
        means = log.mean_lengths()
        self._lengths = means and [_table(bucket, cell, mean[usable], buckets, self.sizes.size) for mean in means]
        drawn = resamples if self.num_prompts >= MIN_PROMPTS else 0
        self._weights = rng.multinomial(buckets, np.full(buckets, 1 / buckets), size=drawn).astype(np.float64)

    def groups(self, per_cell: Array) -> Array:
        """(B,): a quantity of each cell, summed over the groups of each bucket."""
        return self._by_bucket @ per_cell

    def lengths(self, drawn: Array, right: Array) -> Array | None:
        """(B,): lengths of `drawn` rollouts a group, `right` of them right; None where the log has no lengths.

        Any rollout of a group is as likely to be drawn as another of the same reward, so means are all it takes.
        """
        if self._lengths is None:
            return None
        of_right, of_wrong = self._lengths
        return of_right @ right + of_wrong @ (drawn - right)

    def rounds(self, expected: Expected) -> float:
        """Mean over steps of the expected rounds: a step lasts as long as the last of its groups."""
        log_done = self._by_step @ np.log(np.maximum(expected.done_by, 1e-300))  # (steps, R)
        return float(1 + (1 - np.exp(log_done)).sum(axis=1).mean())

    def ratio(self, above: Array, below: Array) -> Interval:
        """sum(above) / sum(below) over all prompts, both (B,), resampled together."""
        return self._interval(lambda total: total(above) / total(below))

    def cost(self, drawn: Array, kept: Array, base_drawn: Array, base_kept: Array) -> Interval:
        """(sum(drawn) / sum(kept)) / (sum(base_drawn) / sum(base_kept)), all (B,), resampled together."""
        return self._interval(lambda total: total(drawn) / total(kept) / (total(base_drawn) / total(base_kept)))

    def _interval(self, estimate: Callable[[Callable[[Array], Array]], Array]) -> Interval:
        """Of an `estimate` made from totals; a resample in which it is undefined (nothing kept) is left out."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(estimate(np.sum))
            drawn = estimate(lambda sums: self._weights @ sums)
        drawn = drawn[np.isfinite(drawn)]
        return Interval(value, *np.percentile(drawn, [2.5, 97.5]).tolist()) if drawn.size else Interval(value)


def _table(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: Array, num_rows: int, num_columns: int
) -> csr_array:
    return csr_array(coo_array((values, (rows, columns)), shape=(num_rows, num_columns)))
