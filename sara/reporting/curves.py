"""The lines that the figures draw: means over seeds along a common step axis."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sara.reporting.comparison import Comparison, Series, TrainingRun
from sara.reporting.estimates import Estimate, base_estimate, estimate, seed_spread


@dataclass(frozen=True)
class Curve:
    """One strategy's held-out accuracy against what had been spent when it was measured."""

    strategy: str
    spent: tuple[float, ...]
    scores: tuple[Estimate, ...]


def accuracy_curves(comparison: Comparison, spent: str) -> list[Curve]:
    """One curve a strategy; `spent` is a cumulative metric. Every curve starts at the base model."""
    base = base_estimate(comparison, "eval/accuracy")
    curves = []
    for strategy in comparison.strategies():
        runs = comparison.of(strategy)
        points = [(0.0, base)] if base else []
        spread = seed_spread(comparison, "eval/accuracy")
        for step in _common_steps(runs, "eval/accuracy"):
            if step > 0 or not base:
                x = fmean(_until(run.series(spent), step) for run in runs)
                points.append((x, estimate(runs, "eval/accuracy", step, spread)))
        if points:
            curves.append(Curve(strategy, *map(tuple, zip(*points, strict=True))))
    return curves


def mean_series(runs: Sequence[TrainingRun], metric: str) -> Series:
    """Mean over the seeds that have the step; NaN and infinite values are left out."""
    found: dict[int, list[float]] = {}
    for run in runs:
        series = run.series(metric).finite()
        for step, value in zip(series.steps, series.values, strict=True):
            found.setdefault(step, []).append(value)
    return Series.from_points((step, fmean(values)) for step, values in found.items())


def _common_steps(runs: Sequence[TrainingRun], metric: str) -> list[int]:
    return sorted(set.intersection(*(set(run.series(metric).finite().steps) for run in runs)))


def _until(series: Series, step: int) -> float:
    """A cumulative value after `step` steps; 0 before the first."""
    place = bisect_right(series.steps, step)
    return series.values[place - 1] if place else 0.0
