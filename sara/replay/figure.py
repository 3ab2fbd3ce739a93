"""The figure of a replay: what a setting costs against what it loses.

Owns the drawing, with matplotlib's object interface. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from sara.replay.recommend import Recommendation
from sara.replay.results import GridResult, SettingResult, undominated
from sara.replay.sums import Interval
from sara.reporting.style import LIGHT, Scheme, dress

DPI = 200
_Measure = Callable[[SettingResult], Interval | None]


def draw_costs(
    grid: GridResult, recommendation: Recommendation, unit: str | None, max_lost: float, scheme: Scheme = LIGHT
) -> Figure:
    """Cost of an effective group, relative to DS, against the share of effective groups lost.

    One panel for rollouts and, where the log has lengths, one for them; a line for each k, the largest in colour,
    with the number of equal outcomes after which each of its settings abandons.
    """
    panels: list[tuple[str, _Measure]] = [("rollouts", lambda result: result.cost)]
    if any(result.length_cost for result in grid.settings):
        panels.append((str(unit), lambda result: result.length_cost))
    figure = Figure(figsize=(4.8 * len(panels) + 0.6, 4.0), dpi=DPI, layout="constrained", facecolor=scheme.paper)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, measure) in zip(all_axes, panels, strict=True):
        dress(axes, scheme)
        for baseline in reversed(grid.baselines):
            of_k = undominated([result for result in grid.settings if result.setting.k == baseline.k])
            _draw_line(axes, of_k, measure, recommendation.chosen, scheme, is_main=baseline is grid.baselines[0])
        _draw_frame(axes, name, max_lost, scheme)
    all_axes[0].set_ylabel("per effective group kept, % of DS")
    return figure


def _draw_line(
    axes: Axes,
    results: Sequence[SettingResult],
    measure: _Measure,
    chosen: SettingResult | None,
    scheme: Scheme,
    *,
    is_main: bool,
) -> None:
    known = sorted((r for r in results if measure(r) is not None), key=lambda result: result.lost.value)
    if not known:
        return
    colour = scheme.strategy("sara") if is_main else scheme.trace
    xs, ys = [100 * r.lost.value for r in known], [100 * measure(r).value for r in known]
    axes.plot([0, *xs], [100, *ys], color=colour, linewidth=1.2 if is_main else 1.0, zorder=2 if is_main else 1)
    for x, y, result in zip(xs, ys, known, strict=True):
        _draw_interval(axes, x, measure(result), colour)
        size = 9 if result is chosen else 5.5
        axes.plot(x, y, "o", color=colour, mec=scheme.paper, mew=0.8, markersize=size, zorder=3)
    if is_main:
        _name_points(axes, xs, ys, known, chosen, scheme)
    end = f"k = {known[0].setting.k}"
    place = {"xytext": (7, -9), "textcoords": "offset points"}
    axes.annotate(end, (xs[-1], ys[-1]), **place, color=colour if is_main else scheme.quiet, fontsize=8.5)


def _name_points(
    axes: Axes,
    xs: Sequence[float],
    ys: Sequence[float],
    results: Sequence[SettingResult],
    chosen: SettingResult | None,
    scheme: Scheme,
) -> None:
    """Write after how many equal outcomes each setting drops, the chosen one first, where there is room."""
    room = 0.05 * (max(*ys, 100) - min(*ys, 100))
    taken: list[float] = []
    for x, y, result in sorted(zip(xs, ys, results, strict=True), key=lambda point: point[2] is not chosen):
        drops = sorted({result.drops_fail, result.drops_pass})
        if drops[0] == result.setting.k or any(abs(y - other) < room for other in taken):
            continue
        taken.append(y)
        weight = "bold" if result is chosen else "normal"
        place = {"xytext": (-7, -4), "textcoords": "offset points", "ha": "right", "va": "top"}
        label = f"after {'/'.join(map(str, drops))}"
        axes.annotate(label, (x, y), **place, color=scheme.ink, fontsize=8, fontweight=weight)


def _draw_interval(axes: Axes, x: float, interval: Interval, colour: str) -> None:
    if interval.low is not None and interval.high is not None:
        axes.vlines(x, 100 * interval.low, 100 * interval.high, color=colour, linewidth=1.0, alpha=0.6)


def _draw_frame(axes: Axes, name: str, max_lost: float, scheme: Scheme) -> None:
    """DS as the origin, the cap on what may be lost as a line."""
    axes.axhline(100, color=scheme.strategy("ds"), linewidth=1.0)
    axes.plot(0, 100, "o", color=scheme.strategy("ds"), markersize=6, zorder=4)
    axes.annotate("DS", (0, 100), xytext=(6, 5), textcoords="offset points", color=scheme.strategy("ds"), fontsize=8.5)
    axes.axvline(100 * max_lost, color=scheme.quiet, linewidth=0.8, dashes=(4, 3))
    place = {"xy": (100 * max_lost, 1), "xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate("cap", **place, xytext=(4, -10), color=scheme.quiet, fontsize=8)
    axes.set_title(name, loc="left", color=scheme.ink, fontsize=9.5)
    axes.set_xlabel("effective groups lost, % of DS's")
    axes.margins(x=0.12, y=0.12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
