"""The figures of a report, drawn with matplotlib's object interface (no pyplot).

Each function draws one figure of a comparison in one colour scheme, and returns None when the
comparison has nothing to show in it.
"""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sara.reporting import formats
from sara.reporting.comparison import FATES, Comparison, label
from sara.reporting.curves import Curve, accuracy_curves, mean_series
from sara.reporting.estimates import base_estimate
from sara.reporting.line_labels import NamedLine, name_lines
from sara.reporting.style import DPI, WIDTH_IN, Scheme, dress

MOST_IN_A_ROW = 6
SPENT = {"cumulative/rollouts": "rollouts generated", "cumulative/tokens": "tokens generated"}


def accuracy(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Held-out accuracy against rollouts (left) and tokens (right), with 95% bands."""
    if not any(len(curve.spent) > 1 for curve in accuracy_curves(comparison, "cumulative/rollouts")):
        return None
    figure, panels = _panels(scheme, columns=2, height_in=3.9)
    for axes, (metric, name) in zip(panels, SPENT.items(), strict=True):
        curves = accuracy_curves(comparison, metric)
        for curve in curves:
            _draw_curve(axes, curve, scheme.strategy(curve.strategy, comparison.strategies()), scheme.paper)
        _draw_base(axes, comparison, scheme)
        axes.set_xlabel(name)
        axes.set_xlim(0, 1.12 * max(curve.spent[-1] for curve in curves))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.tick(x)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    panels[0].set_ylabel("held-out accuracy, avg@k (%)")
    for axes, metric in zip(panels, SPENT, strict=True):
        name_lines(axes, _named(comparison, accuracy_curves(comparison, metric), scheme), scheme.paper)
    return figure


def fates(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Rollouts of each step by what became of them: one panel a strategy, on shared axes."""
    drawn = [s for s in comparison.strategies() if _fate_series(comparison, s)]
    if not drawn:
        return None
    figure, panels = _strategy_panels(scheme, len(drawn), height_in=3.4)
    figure.get_layout_engine().set(h_pad=0.09)
    for axes, strategy in zip(panels, drawn, strict=True):
        _draw_fates(axes, comparison, strategy, scheme)
    panels[0].set_ylabel("rollouts a step")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda y, _: formats.tick(y)))
    handles = [Patch(color=scheme.fates[fate], label=fate) for fate in fates_seen(comparison)]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        labelcolor=scheme.ink,
        handlelength=0.9,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.6,
        borderpad=0.4,
    )
    return figure


def fates_seen(comparison: Comparison) -> list[str]:
    """The fates that befell at least one rollout of any strategy."""
    seen = set().union(*(_fate_series(comparison, strategy) for strategy in comparison.strategies()))
    return [fate for fate in FATES if fate in seen]


def effective_share(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Share of each step's trained groups whose rewards differ: one panel a strategy, the others faint."""
    found = {s: mean_series(comparison.of(s), "effective_share") for s in comparison.strategies()}
    found = {strategy: series for strategy, series in found.items() if series.steps}
    if not found:
        return None
    figure, panels = _strategy_panels(scheme, len(found), height_in=2.3)
    for axes, (strategy, own) in zip(panels, found.items(), strict=True):
        colour = scheme.strategy(strategy, comparison.strategies())
        for series in found.values():
            axes.plot(series.steps, [100 * x for x in series.values], color=scheme.trace, linewidth=0.8)
        percent = [100 * x for x in own.values]
        axes.plot(own.steps, percent, color=colour, linewidth=1.7, clip_on=False, solid_capstyle="round")
        _title(axes, comparison, strategy, f"mean {formats.share(fmean(own.values))}", scheme)
        axes.set(ylim=(0, 100), xlim=(own.steps[0] - 0.5, own.steps[-1] + 0.5))
    panels[0].set_ylabel("effective groups (%)")
    return figure


def _panels(scheme: Scheme, columns: int, height_in: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Panels that share the vertical axis; `height_in` is a row's."""
    figure = Figure(figsize=(WIDTH_IN, rows * height_in), dpi=DPI, layout="constrained", facecolor=scheme.paper)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.04, wspace=0.04 if columns < 4 else 0.015)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    for place, axes in enumerate(panels):
        dress(axes, scheme)
        if place % columns:
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
    return figure, panels


def _strategy_panels(scheme: Scheme, strategies: int, height_in: float) -> tuple[Figure, list[Axes]]:
    """A panel for each strategy, never wider than a third of the figure; more than fit in a row take several."""
    rows = -(-strategies // MOST_IN_A_ROW)
    figure, panels = _panels(scheme, max(-(-strategies // rows), 3), height_in, rows)
    for axes in panels[strategies:]:
        axes.remove()
    return figure, panels[:strategies]


def _draw_curve(axes: Axes, curve: Curve, colour: str, paper: str) -> None:
    """A line with its band; the base model's interval, shared by all, is drawn once by `_draw_base`."""
    points = [(x, score) for x, score in zip(curve.spent, curve.scores, strict=True) if x > 0]
    bounded = [(x, score) for x, score in points if score.low is not None]
    xs, lows = [x for x, _ in bounded], [100 * score.low for _, score in bounded]
    highs = [100 * score.high for _, score in bounded]
    if len(bounded) > 1:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.1, linewidth=0)
    else:
        axes.vlines(xs, lows, highs, color=colour, linewidth=0.9)
    values = [100 * score.value for score in curve.scores]
    axes.plot(curve.spent, values, color=colour, linewidth=1.6, marker="o", markersize=4.5, mec=paper, mew=0.8)


def _draw_base(axes: Axes, comparison: Comparison, scheme: Scheme) -> None:
    base = base_estimate(comparison, "eval/accuracy")
    if base is None:
        return
    axes.axhline(100 * base.value, color=scheme.quiet, linewidth=0.9, dashes=(4, 3))
    if base.low is not None and base.high is not None:
        axes.axhspan(100 * base.low, 100 * base.high, color=scheme.quiet, alpha=0.09, linewidth=0, zorder=0)
    place = {
        "xy": (1, 100 * base.value),
        "xycoords": ("axes fraction", "data"),
        "textcoords": "offset points",
    }
    axes.annotate("base model", **place, xytext=(-3, -9), ha="right", color=scheme.quiet, fontsize=8)


def _fate_series(comparison: Comparison, strategy: str) -> dict[str, dict[int, float]]:
    """Fate -> step -> mean rollouts, for the fates that occur at all."""
    found = {fate: mean_series(comparison.of(strategy), f"rollouts/{fate}") for fate in FATES}
    return {fate: dict(zip(*series, strict=True)) for fate, series in found.items() if any(series.values)}


def _draw_fates(axes: Axes, comparison: Comparison, strategy: str, scheme: Scheme) -> None:
    """Stacks one strategy's fates, the useful ones at the bottom."""
    series = _fate_series(comparison, strategy)
    steps = sorted(set().union(*series.values()))
    steps = list(range(steps[0], steps[-1] + 1))
    edges = [step - 0.5 for step in steps] + [steps[-1] + 0.5]
    floor = [0.0] * len(steps)
    for fate, values in series.items():
        top = [low + values.get(step, 0.0) for low, step in zip(floor, steps, strict=True)]
        axes.stairs(top, edges, baseline=floor, fill=True, color=scheme.fates[fate], linewidth=0)
        floor = top
    _title(axes, comparison, strategy, f"mean {formats.count(fmean(floor))}", scheme)
    axes.set_xlim(edges[0], edges[-1])


def _title(axes: Axes, comparison: Comparison, strategy: str, under: str, scheme: Scheme) -> None:
    """The strategy's name over a quiet line; the step axis below."""
    colour = scheme.strategy(strategy, comparison.strategies())
    name, weight = formats.panel_name(label(strategy)), "bold" if strategy.startswith("sara") else "normal"
    axes.set_title(name, loc="left", color=colour, fontsize=9.5, fontweight=weight, pad=16)
    place = {"xy": (0, 1), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(under, **place, xytext=(0, 5), color=scheme.quiet, fontsize=8)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))


def _named(comparison: Comparison, curves: Sequence[Curve], scheme: Scheme) -> list[NamedLine]:
    return [
        NamedLine(
            formats.panel_name(label(curve.strategy)),
            curve.spent,
            [100 * score.value for score in curve.scores],
            scheme.strategy(curve.strategy, comparison.strategies()),
            is_bold=curve.strategy.startswith("sara"),
        )
        for curve in curves
    ]
