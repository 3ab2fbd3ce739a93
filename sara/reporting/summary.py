"""The numbers of a comparison's table, and what they say in plain sentences.

Owns the arithmetic. Never lays a table out (`tables`) or draws (`figures`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from sara.reporting.comparison import REFERENCE, Comparison, TrainingRun, label, reference_of
from sara.reporting.estimates import (
    GAIN_RANGE,
    Estimate,
    base_estimate,
    estimate,
    last_step,
    paired_by_seed,
    seed_spread,
)

__all__ = ["REFERENCE", "Row", "rows_as_json", "summary_table"]


@dataclass(frozen=True)
class Row:
    """One strategy, averaged over its seeds; the base model has only its scores.

    groups, rollouts and tokens are totals of a run; the `_pct` are 100 x total / DS's total;
    `gain` (of accuracy over the base model) and `effective_share` are fractions; `over_ds` is the
    difference in accuracy to DS, paired by seed where two have at least two in common; `wall_s` is in
    seconds. None: not known.
    """

    strategy: str
    label: str
    seeds: int = 0
    steps: float | None = None
    groups: float | None = None
    rollouts: float | None = None
    tokens: float | None = None
    rollouts_pct: float | None = None
    tokens_pct: float | None = None
    accuracy: Estimate | None = None
    pass_at_k: Estimate | None = None
    gain: Estimate | None = None
    over_ds: Estimate | None = None
    effective_share: float | None = None
    rounds: float | None = None
    wall_s: float | None = None


def summary_table(comparison: Comparison) -> list[Row]:
    """One row for the base model where it was evaluated, then one for each strategy."""
    base = base_estimate(comparison, "eval/accuracy")
    first = Row("base", label("base"), accuracy=base, pass_at_k=base_estimate(comparison, "eval/pass_at_k"))
    rows = [_row(comparison, strategy, base) for strategy in comparison.strategies()]
    return [first, *rows] if base else rows


def rows_as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The same figures as plain JSON values; an estimate becomes {value, low, high}."""
    return [asdict(row) for row in rows]


def _row(comparison: Comparison, strategy: str, base: Estimate | None) -> Row:
    runs, reference = comparison.of(strategy), comparison.of(reference_of(strategy))
    rollouts, tokens = _mean(runs, _total_rollouts), _mean(runs, _total_tokens)
    accuracy = _final(comparison, runs, "eval/accuracy")
    return Row(
        strategy,
        label(strategy),
        seeds=len(runs),
        steps=_mean(runs, lambda run: float(len(run.series("rollouts/generated").steps))),
        groups=_mean(runs, lambda run: _total(run, "groups/trained")),
        rollouts=rollouts,
        tokens=tokens,
        rollouts_pct=_percent(rollouts, _mean(reference, _total_rollouts)),
        tokens_pct=_percent(tokens, _mean(reference, _total_tokens)),
        accuracy=accuracy,
        pass_at_k=_final(comparison, runs, "eval/pass_at_k"),
        gain=_gain(comparison, runs, accuracy, base),
        over_ds=None if strategy == reference_of(strategy) else paired_by_seed(runs, reference, "eval/accuracy"),
        effective_share=_mean(runs, _effective_share),
        rounds=_mean(runs, _rounds),
        wall_s=_mean(runs, lambda run: _total(run, "time/step_s")),
    )


def _final(comparison: Comparison, runs: Sequence[TrainingRun], metric: str) -> Estimate | None:
    step = last_step(runs, metric)
    return None if step is None else estimate(runs, metric, step, seed_spread(comparison, metric))


def _gain(
    comparison: Comparison, runs: Sequence[TrainingRun], accuracy: Estimate | None, base: Estimate | None
) -> Estimate | None:
    """The paired gain where the evaluation behind `accuracy` logged one; else the plain difference."""
    step = last_step(runs, "eval/gain")
    if step is not None and step == last_step(runs, "eval/accuracy"):
        return estimate(runs, "eval/gain", step, seed_spread(comparison, "eval/gain"), GAIN_RANGE)
    return Estimate(accuracy.value - base.value) if accuracy and base else None


def _mean(runs: Sequence[TrainingRun], of: Callable[[TrainingRun], float | None]) -> float | None:
    """Mean over the seeds; None as soon as one seed does not know."""
    values = [of(run) for run in runs]
    return None if not values or any(x is None for x in values) else fmean(values)


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100.0 * part / whole


def _total(run: TrainingRun, metric: str) -> float | None:
    values = run.series(metric).finite().values
    return math.fsum(values) if values else None


def _total_rollouts(run: TrainingRun) -> float | None:
    return run.series("cumulative/rollouts").last()


def _total_tokens(run: TrainingRun) -> float | None:
    return run.series("cumulative/tokens").last()


def _rounds(run: TrainingRun) -> float | None:
    values = run.series("rounds").finite().values
    return fmean(values) if values else None


def _effective_share(run: TrainingRun) -> float | None:
    """Effective groups among all groups trained: steps weigh by the groups they trained."""
    share, trained = run.series("effective_share").finite(), run.series("groups/trained")
    weights = [trained.at(step) or 0.0 for step in share.steps]
    total = math.fsum(weights)
    return math.fsum(w * x for w, x in zip(weights, share.values, strict=True)) / total if total else None
