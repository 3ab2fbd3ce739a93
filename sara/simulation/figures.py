"""The figures of a simulation: costs of every row, the course of the steps, and costs along the grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sara.reporting.figures import DPI, WIDTH_IN
from sara.reporting.line_labels import NamedLine, name_lines
from sara.reporting.style import LIGHT as SCHEME
from sara.reporting.style import dress
from sara.simulation.config import SimulateConfig
from sara.simulation.oracle import ORACLE
from sara.simulation.run import Run, Trace
from sara.simulation.summary import Row

_MOST_ROWS = 48  # a taller figure of dots is no longer read
_MOST_NAMES = 12
_PACES = ("probe", "increment")  # as shares of k they change with it
Setting = int | float | str | tuple[float, float]


def draw_all(config: SimulateConfig, rows: Sequence[Row], traces: Sequence[Trace]) -> dict[str, Figure]:
    """File name -> figure, for each that has something to show."""
    figures = {
        "costs.png": draw_costs(config, rows),
        "steps.png": draw_steps(config, traces),
        "grid.png": draw_grid(config, rows),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def draw_costs(config: SimulateConfig, rows: Sequence[Row]) -> Figure | None:
    """Rollouts (left) and tokens (right) for one effective group, with one standard error; relative to DS if it ran."""
    shown = [row for row in rows if row.rollouts_per_group is not None]
    if not shown or len(shown) > _MOST_ROWS:
        return None
    figure, panels = _panels(2, height_in=1.1 + 0.24 * len(shown), share_y=True)
    has_ds = all(row.rollouts_vs_ds is not None for row in shown)
    places = np.arange(len(shown))[::-1]
    for axes, unit in zip(panels, ("rollouts", "tokens"), strict=True):
        name, scale = (f"{unit}_vs_ds", 100) if has_ds else (f"{unit}_per_group", 1)
        for row, place in zip(shown, places, strict=True):
            value = getattr(row, name)
            error = scale * (value.error or 0)
            axes.errorbar(scale * value.value, place, xerr=error, color=_colour(row.strategy), **_DOT)
        axes.set_xlim(left=0)
        axes.grid(axis="x", color=SCHEME.faint, linewidth=0.6)
        axes.set_xlabel(f"{unit} for an effective group" + (", % of DS" if has_ds else ""))
    panels[0].set_yticks(places, [_label(config, row) for row in shown])
    return figure


def draw_steps(config: SimulateConfig, traces: Sequence[Trace]) -> Figure | None:
    """Rollouts, effective share and rounds along the steps, each strategy with its first setting, smoothed."""
    if config.steps < 2:
        return None
    first: dict[str, Run] = {}
    for trace in traces:
        first.setdefault(trace.run.strategy, trace.run)
    figure, panels = _panels(3, height_in=3.3)
    steps = np.arange(1, config.steps + 1)
    for strategy, run in first.items():
        of_run = [trace.steps for trace in traces if trace.run == run]
        asked = np.full(config.steps, float(run.allocation.k * run.allocation.groups_per_step * len(of_run)))
        rollouts, effective, trained, rounds = (
            np.sum([trace[metric] for trace in of_run], axis=0)
            for metric in ("rollouts/generated", "groups/effective", "groups/trained", "rounds")
        )
        courses = ((rollouts, asked), (effective, trained), (rounds, np.full(config.steps, float(len(of_run)))))
        for axes, (over, under) in zip(panels, courses, strict=True):
            line = axes.plot(steps, _smoothed(over, under), color=_colour(strategy), label=strategy)[0]
            line.set_linewidth(1.7 if strategy.startswith("sara") else 1.0)
    for axes, title in zip(panels, _COURSES, strict=True):
        axes.set(xlabel="step", xlim=(1, config.steps), ylim=(0, None))
        axes.set_title(title, loc="left", fontsize=9, color=SCHEME.ink)
    figure.legend(*panels[0].get_legend_handles_labels(), **_LEGEND, ncols=len(first))
    return figure


def draw_grid(config: SimulateConfig, rows: Sequence[Row]) -> Figure | None:
    """Rollouts as a share of DS's along each setting that varies, one line for each combination of the others."""
    found = {name: _grid_lines(config, name, rows) for name in config.grid.varied()}
    found = {name: lines for name, lines in found.items() if lines}
    if not found:
        return None
    figure, panels = _panels(max(len(found), 2), height_in=3.3, share_y=True)
    for axes, (name, lines) in zip(panels, found.items(), strict=False):
        values = sorted(
            {value for _, group in lines for value in group}, key=lambda value: (isinstance(value, str), value)
        )
        named: dict[str, NamedLine] = {}
        for (strategy, *others), group in lines:
            x, y = [values.index(value) for value in group], list(group.values())
            axes.plot(x, y, color=_colour(strategy), linewidth=1.2, marker="o", markersize=3.5)
            label = " ".join([strategy, *others]) if len(lines) <= _MOST_NAMES else strategy
            named.setdefault(label, NamedLine(label, x, y, _colour(strategy)))
        axes.set_xticks(range(len(values)), [_written(value) for value in values])
        axes.set(xlim=(-0.2, 1.4 * len(values) - 1), xlabel=name)
        name_lines(axes, list(named.values()), SCHEME.paper)
    for axes in panels[len(found) :]:
        axes.remove()
    panels[0].set_ylabel("rollouts for an effective group, % of DS")
    return figure


_DOT = {"fmt": "o", "markersize": 5, "elinewidth": 1.2, "capsize": 0}
_LEGEND = {
    "loc": "outside upper left",
    "frameon": False,
    "fontsize": 8.5,
    "labelcolor": SCHEME.ink,
    "handlelength": 1.2,
}
_COURSES = ("rollouts a step, × uniform's", "effective share of trained groups", "rounds a step")


def _grid_lines(
    config: SimulateConfig, name: str, rows: Sequence[Row]
) -> list[tuple[tuple[str, ...], dict[Setting, float]]]:
    """((strategy, other settings that vary), value -> % of DS) for each combination with two points or more."""
    others = [other for other in config.grid.varied() if other != name and not (name == "k" and other in _PACES)]
    lines: dict[tuple[str, ...], dict[Setting, float]] = {}
    for row in rows:
        value = _value(row, name)
        if row.rollouts_vs_ds is None or row.strategy == "ds" or value is None:
            continue
        settings = {other: _value(row, other) for other in others if _value(row, other) is not None}
        written = [("k=" if other == "k" else "") + _written(found) for other, found in settings.items()]
        lines.setdefault((row.strategy, *written), {})[value] = 100 * row.rollouts_vs_ds.value
    return [(key, group) for key, group in lines.items() if len(group) > 1]


def _value(row: Row, name: str) -> Setting | None:
    return (None if row.alpha0 is None else (row.alpha0, row.beta0)) if name == "prior" else getattr(row, name)


def _written(value: Setting) -> str:
    return f"{value[0]:g}, {value[1]:g}" if isinstance(value, tuple) else str(value)


def _label(config: SimulateConfig, row: Row) -> str:
    settings = [
        f"{name}={_written(_value(row, name))}" for name in config.grid.varied() if _value(row, name) is not None
    ]
    return " ".join([row.strategy, *settings])


def _smoothed(over: NDArray[np.float64], under: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T,) ratio of sums over the steps around each; not a number where nothing was trained."""
    window = np.ones(max(1, over.size // 20))
    top, bottom = (np.convolve(values, window, mode="same") for values in (over, under))
    return np.divide(top, bottom, out=np.full(over.size, np.nan), where=bottom > 0)


def _panels(columns: int, height_in: float, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout="constrained", facecolor=SCHEME.paper)
    panels = figure.subplots(1, columns, sharey=share_y, squeeze=False).ravel().tolist()
    for axes in panels:
        dress(axes, SCHEME)
    return figure, panels


def _colour(strategy: str) -> str:
    return SCHEME.ink if strategy == ORACLE else SCHEME.strategy(strategy)
