"""Held-out scores with their intervals, over prompts and over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.special import stdtrit

from sara.reporting.comparison import Comparison, TrainingRun

SCORE_RANGE = (0.0, 1.0)
GAIN_RANGE = (-1.0, 1.0)


@dataclass(frozen=True)
class Estimate:
    """A mean score, or a difference of two, and its 95% interval, as fractions; the ends may be unknown."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SeedSpread:
    """The seed-to-seed spread of a score, pooled over strategies.

    Two or three seeds say little about the spread of one strategy. Pooling (as in a one-way
    analysis of variance) shares the degrees of freedom, and Student's t pays for the few there are.
    """

    deviation: float = 0.0
    freedom: int = 0

    def half_width(self, seeds: int) -> float:
        if not self.freedom or seeds < 1:
            return 0.0
        return float(stdtrit(self.freedom, 0.975)) * self.deviation / math.sqrt(seeds)


def last_step(runs: Sequence[TrainingRun], metric: str) -> int | None:
    """The last step at which every one of `runs` was scored; None when there is no such step."""
    scored = [set(run.series(metric).finite().steps) for run in runs]
    return max(set.intersection(*scored), default=None) if scored else None


def seed_spread(comparison: Comparison, metric: str) -> SeedSpread:
    """Pooled over the strategies' scores at their last evaluated step."""
    squares, freedom = 0.0, 0
    for strategy in comparison.strategies():
        runs = comparison.of(strategy)
        step = last_step(runs, metric)
        if step is not None and len(runs) > 1:
            squares += variance([run.series(metric).at(step) for run in runs]) * (len(runs) - 1)
            freedom += len(runs) - 1
    return SeedSpread(math.sqrt(squares / freedom), freedom) if freedom else SeedSpread()


def estimate(
    runs: Sequence[TrainingRun],
    metric: str,
    step: int,
    spread: SeedSpread,
    possible: tuple[float, float] = SCORE_RANGE,
) -> Estimate:
    """Mean over seeds, with the uncertainty from prompts and from seeds added in quadrature.

    possible  the range of the metric, which its interval never leaves

    Every seed is scored on the same held-out prompts, so averaging seeds does not average the
    prompts' part away: it enters with the mean of the seeds' bootstrap half widths.
    """
    value = fmean(run.series(metric).at(step) for run in runs)
    seeds = spread.half_width(len(runs))
    ends = []
    for end in ("_low", "_high"):
        known = [(run.series(metric).at(step), run.series(metric + end).at(step)) for run in runs]
        if any(bound is None or not math.isfinite(bound) for _, bound in known):
            return Estimate(value)
        prompts = fmean(abs(score - bound) for score, bound in known)
        ends.append(math.hypot(prompts, seeds))
    return Estimate(value, max(possible[0], value - ends[0]), min(possible[1], value + ends[1]))


def paired_by_seed(runs: Sequence[TrainingRun], others: Sequence[TrainingRun], metric: str) -> Estimate | None:
    """Mean difference of the last score that both have, over the seeds in common, with Student's t over seeds.

    Runs with one seed see the same prompts in the same order and the same held-out rollouts' random numbers,
    so their difference is less noisy than that of the means. None with fewer than two seeds in common.
    """
    pairs = {run.seed: run for run in others}
    matched = [(run, pairs[run.seed]) for run in runs if run.seed in pairs]
    step = last_step([run for pair in matched for run in pair], metric)
    if len(matched) < 2 or step is None:
        return None
    differences = [a.series(metric).at(step) - b.series(metric).at(step) for a, b in matched]
    seeds = len(differences)
    half = float(stdtrit(seeds - 1, 0.975)) * math.sqrt(variance(differences) / seeds)
    value = fmean(differences)
    return Estimate(value, max(GAIN_RANGE[0], value - half), min(GAIN_RANGE[1], value + half))


def base_estimate(comparison: Comparison, metric: str) -> Estimate | None:
    """The base model's score, as its evaluation gave it."""
    base = comparison.base
    if metric not in base:
        return None
    return Estimate(base[metric], base.get(metric + "_low"), base.get(metric + "_high"))
