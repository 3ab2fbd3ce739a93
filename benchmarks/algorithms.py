"""SARA beside uniform sampling for each algorithm, from the records of a comparison:

    python benchmarks/algorithms.py sqlite:///outputs/mlflow.db sara

At equal steps: the scores of the last step. At equal rollouts: SARA's accuracy where it had spent what uniform spent in
its whole run, on straight lines between its evaluations.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

from sara.reporting import Comparison
from sara.reporting.comparison import bare_strategy, label
from sara.reporting.curves import Curve, accuracy_curves
from sara.reporting.estimates import Estimate
from sara.reporting.formats import points, points_interval
from sara.reporting.summary import summary_table
from tasks.tracking import load_comparison


def at_rollouts(curve: Curve, spent: float) -> Estimate | None:
    """Accuracy on the line between the two evaluations around `spent`; None beyond the last one."""
    points = list(zip(curve.spent, curve.scores, strict=True))
    for (left, before), (right, after) in pairwise(points):
        if left <= spent <= right:
            share = (spent - left) / (right - left)
            ends = zip((before.value, before.low, before.high), (after.value, after.low, after.high), strict=True)
            return Estimate(*(a + share * (b - a) for a, b in ends))
    return None


def show(score: Estimate | None) -> str:
    return "" if score is None else f"{100 * score.value:.1f}% ({100 * score.low:.1f} to {100 * score.high:.1f})"


def finished(comparison: Comparison) -> Comparison:
    """The seeds that every pair of algorithm and strategy has finished."""
    runs = [run for run in comparison.runs if run.status == "FINISHED"]
    pairs = len({run.strategy for run in runs})
    seeds = [run.seed for run in runs]
    return replace(comparison, runs=tuple(run for run in runs if seeds.count(run.seed) == pairs))


def table(comparison: Comparison) -> str:
    curves = {curve.strategy: curve for curve in accuracy_curves(comparison, "cumulative/rollouts")}
    gains = {row.strategy: f"{points(row.gain)} ({points_interval(row.gain)})" for row in summary_table(comparison)}
    lines = [
        "| algorithm | rollouts: uniform | SARA | accuracy: uniform | SARA, equal rollouts | SARA, equal steps | "
        "gain: uniform | SARA, equal steps |",
        "|---|---:|---:|---|---|---|---|---|",
    ]
    for name in (name for name in curves if bare_strategy(name) == "uniform"):
        uniform, sara = curves[name], curves[name.replace("uniform", "sara", 1)]
        cells = (
            label(name).removesuffix(", Uniform"),
            f"{uniform.spent[-1]:,.0f}",
            f"{sara.spent[-1]:,.0f}",
            show(uniform.scores[-1]),
            show(at_rollouts(sara, uniform.spent[-1])),
            show(sara.scores[-1]),
            gains[name],
            gains[sara.strategy],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return f"Seeds: {', '.join(map(str, comparison.seeds()))}\n\n" + "\n".join(lines)


if __name__ == "__main__":
    print(table(finished(load_comparison(*sys.argv[1:]))))
