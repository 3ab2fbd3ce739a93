"""What a simulation comes to: one row for each strategy and setting, beside DS, uniform and the oracle.

Costs are sums over all seeds divided by sums (rollouts over effective groups, say), so a step weighs as much as it
costs. Standard errors are jackknives over seeds; rows share their seeds, so a ratio of two rows is of paired runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sara.config import AUTO
from sara.simulation.config import SimulateConfig
from sara.simulation.exact import Costs, ds_costs, fill_costs, stop_costs, threshold_boundaries
from sara.simulation.oracle import ORACLE
from sara.simulation.run import Run, Trace

_SETTINGS = ("tau_low", "probe", "increment", "alpha0", "beta0")


class Figure(NamedTuple):
    """A value with its standard error over seeds; no error where there was one seed."""

    value: float
    error: float | None


@dataclass(frozen=True)
class Row:
    """A strategy with its settings; None where a figure does not apply, is not finite, or lacks its reference.

    rollouts_per_group, tokens_per_group  for one effective group, all that was generated counted
    rollouts_vs_*, tokens_vs_*            the same as a share of DS's, uniform's and the oracle's at this k
    step_rollouts_vs_uniform              rollouts of a step as a multiple of uniform's, which are k * B
    effective_share                       effective groups among those trained on
    rounds                                rounds of a step
    decode_steps_per_group                time for one effective group, with as many places as configured
    trained_rate                          mean success rate of the rollouts trained on, step by step
    short_steps                           share of steps that ended with fewer groups than wanted
    exact_rollouts_per_group              the closed form without overshoot, where there is one (a fixed population)
    """

    strategy: str
    k: int
    tau_low: float | str | None
    probe: int | str | None
    increment: int | str | None
    alpha0: float | None
    beta0: float | None
    schedule: str
    rollouts_per_group: Figure | None
    tokens_per_group: Figure | None
    rollouts_vs_ds: Figure | None
    tokens_vs_ds: Figure | None
    rollouts_vs_uniform: Figure | None
    tokens_vs_uniform: Figure | None
    rollouts_vs_oracle: Figure | None
    tokens_vs_oracle: Figure | None
    step_rollouts_vs_uniform: Figure
    effective_share: Figure | None
    rounds: Figure
    decode_steps_per_group: Figure | None
    trained_rate: float | None
    short_steps: float
    exact_rollouts_per_group: float | None

    def as_json(self) -> dict[str, Any]:
        """Plain values: a figure is its value, with its error under `<name>_error`."""
        plain: dict[str, Any] = {}
        for name in asdict(self):
            value = getattr(self, name)
            plain[name] = value.value if isinstance(value, Figure) else value
            if isinstance(value, Figure):
                plain[f"{name}_error"] = value.error
        return plain


def summarise(config: SimulateConfig, traces: Sequence[Trace]) -> list[Row]:
    """One row for each run, in the order of the traces."""
    by_run: dict[Run, list[Trace]] = {}
    for trace in traces:
        by_run.setdefault(trace.run, []).append(trace)
    return [_row(config, run, by_run) for run in by_run]


def _row(config: SimulateConfig, run: Run, by_run: dict[Run, list[Trace]]) -> Row:
    traces = by_run[run]
    rollouts, tokens, effective, trained, rounds = (
        _totals(traces, metric)
        for metric in ("rollouts/generated", "tokens/generated", "groups/effective", "groups/trained", "rounds")
    )
    asked = np.full(len(traces), float(run.allocation.k * run.allocation.groups_per_step * config.steps))
    steps = np.full(len(traces), float(config.steps))
    rates = np.concatenate([trace.steps["reward/trained_mean"] for trace in traces])
    return Row(
        strategy=run.strategy,
        k=run.allocation.k,
        **{name: getattr(run.allocation, name) if run.is_sequential else None for name in _SETTINGS},
        schedule=run.allocation.schedule,
        rollouts_per_group=jackknife_ratio(rollouts, effective),
        tokens_per_group=jackknife_ratio(tokens, effective),
        **_comparisons(run, by_run),
        step_rollouts_vs_uniform=jackknife_ratio(rollouts, asked),
        effective_share=jackknife_ratio(effective, trained),
        rounds=jackknife_ratio(rounds, steps),
        decode_steps_per_group=jackknife_ratio(_totals(traces, "decode_steps"), effective),
        trained_rate=float(np.nanmean(rates)) if np.isfinite(rates).any() else None,
        short_steps=float(np.mean([trace.steps["is_short"].mean() for trace in traces])),
        exact_rollouts_per_group=_exact(config, run),
    )


def _comparisons(run: Run, by_run: dict[Run, list[Trace]]) -> dict[str, Figure | None]:
    """Costs for an effective group as shares of the references' at the same k, under the same schedule."""
    found = {}
    for reference, name in (("ds", "ds"), ("uniform", "uniform"), (ORACLE, "oracle")):
        theirs = [other for other in by_run if other.strategy == reference and _are_alike(run, other)]
        for unit in ("rollouts", "tokens"):
            found[f"{unit}_vs_{name}"] = _relative(unit, by_run[run], by_run[theirs[0]]) if theirs else None
    return found


def _are_alike(run: Run, other: Run) -> bool:
    return (run.allocation.k, run.allocation.schedule) == (other.allocation.k, other.allocation.schedule)


def _relative(unit: str, ours: Sequence[Trace], theirs: Sequence[Trace]) -> Figure | None:
    columns = [
        _totals(traces, metric) for traces in (ours, theirs) for metric in (f"{unit}/generated", "groups/effective")
    ]
    return _jackknife(lambda cost, groups, cost_2, groups_2: (cost * groups_2) / (groups * cost_2), *columns)


def jackknife_ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> Figure | None:
    """Sum over sum of two columns, one value a seed, both (S,)."""
    return _jackknife(lambda over, under: over / under, numerator, denominator)


def _jackknife(statistic: Callable[..., NDArray[np.float64]], *columns: NDArray[np.float64]) -> Figure | None:
    """`statistic` of the columns' sums over seeds, each (S,), and its error from leaving out one seed at a time.

    None where it is not finite: nothing was trained on, or no group at all was effective.
    """
    seeds = columns[0].size
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(*(column.sum() for column in columns)))
        left_out = statistic(*(column.sum() - column for column in columns))  # (S,)
    if not np.isfinite(value):
        return None
    has_error = seeds > 1 and np.isfinite(left_out).all()
    return Figure(value, float(np.sqrt((seeds - 1) * left_out.var())) if has_error else None)


def _exact(config: SimulateConfig, run: Run) -> float | None:
    """Closed form of `rollouts_per_group`; None where selection or a moving policy has none."""
    if not config.population.is_static or run.allocation.schedule == "stream":
        return None  # a stream adds what it aborts
    costs = _exact_costs(config, run)
    return None if costs is None or costs.effective == 0 else float(costs.rollouts_per_group)


def _exact_costs(config: SimulateConfig, run: Run) -> Costs | None:
    mixture, allocation = config.population.mixture(), run.allocation
    if run.strategy in ("uniform", "ds"):
        return ds_costs(mixture, allocation.k)
    paces = (allocation.probe, allocation.increment)
    num_auto, is_filled = paces.count(AUTO), allocation.on_commit == "fill"
    if run.strategy != "sara" or allocation.tau_low == AUTO:
        return None
    if num_auto == 1 or (num_auto and not is_filled):
        return None
    own_paces = (1, 1) if num_auto else paces  # automatic rounds end at the boundaries, wherever those are
    boundaries = threshold_boundaries(allocation.k, allocation.tau_low, allocation.alpha0, allocation.beta0, *own_paces)
    if is_filled:
        return fill_costs(mixture, allocation.k, *boundaries, audit_rate=allocation.audit_rate)
    return stop_costs(mixture, allocation.k, boundaries, *own_paces, audit_rate=allocation.audit_rate)


def _totals(traces: Sequence[Trace], metric: str) -> NDArray[np.float64]:
    return np.array([trace.total(metric) for trace in traces])
