"""The figures of a report, drawn with matplotlib's object interface on the Agg canvas (no pyplot).

Each function draws one figure of a comparison in one colour scheme, and returns None when the
comparison has nothing to show in it.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib import patheffects, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from sara.reporting import formats
from sara.reporting.comparison import FATES, Comparison, label
from sara.reporting.curves import Curve, accuracy_curves, mean_series
from sara.reporting.style import Scheme, dress, fonts

DPI = 200  # twice the 100 dots an inch that a page shows
WIDTH_IN = 9.6
SPENT = {"cumulative/rollouts": "rollouts generated", "cumulative/tokens": "tokens generated"}


def accuracy(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Held-out accuracy against rollouts (left) and tokens (right), with 95% bands."""
    if not any(len(curve.spent) > 1 for curve in accuracy_curves(comparison, "cumulative/rollouts")):
        return None
    figure, panels = _panels(scheme, rows=1, columns=2, height_in=4.0)
    for axes, (metric, name) in zip(panels, SPENT.items(), strict=True):
        curves = accuracy_curves(comparison, metric)
        for curve in curves:
            _draw_curve(axes, curve, scheme.strategy(curve.strategy, comparison.strategies()))
        _draw_base(axes, comparison, scheme)
        axes.set_xlabel(name)
        axes.set_xlim(left=0)
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.count(x)))
        ends = [(c.strategy, c.spent[-1], 100 * c.scores[-1].value) for c in curves]
        _label_ends(axes, ends, comparison, scheme)
    panels[0].set_ylabel("held-out accuracy, avg@k (%)")
    return figure


def fates(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Rollouts of each step by what became of them: one panel a strategy, on shared axes."""
    drawn = [s for s in comparison.strategies() if _fate_series(comparison, s)]
    if not drawn:
        return None
    columns = len(drawn) if len(drawn) <= 4 else 3
    rows = math.ceil(len(drawn) / columns)
    figure, panels = _panels(scheme, rows, columns, height_in=0.7 + 2.1 * rows)
    seen: set[str] = set()
    for axes, strategy in zip(panels, drawn, strict=False):
        seen |= _draw_fates(axes, comparison, strategy, scheme)
    for axes in panels[len(drawn) :]:
        axes.set_visible(False)
    for place, axes in enumerate(panels[: len(drawn)]):
        if place + columns >= len(drawn):
            axes.set_xlabel("step")
            axes.tick_params(labelbottom=True)
        if place % columns == 0:
            axes.set_ylabel("rollouts")
    handles = [Patch(color=scheme.fates[fate], label=fate) for fate in FATES if fate in seen]
    legend = figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    for text in legend.get_texts():
        text.set(color=scheme.ink, fontsize=8.5)
    return figure


def effective_share(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """Share of each step's trained groups whose rewards differ."""
    series = {s: mean_series(comparison.of(s), "effective_share") for s in comparison.strategies()}
    series = {strategy: found for strategy, found in series.items() if found.steps}
    if not series:
        return None
    figure, (axes,) = _panels(scheme, rows=1, columns=1, height_in=3.2)
    for strategy, found in series.items():
        colour = scheme.strategy(strategy, comparison.strategies())
        percent = [100 * value for value in found.values]
        axes.plot(found.steps, percent, color=colour, linewidth=1.5, clip_on=False)
    axes.set(ylim=(0, 100), xlabel="step", ylabel="effective share of trained groups (%)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    ends = [(s, found.steps[-1], 100 * found.values[-1]) for s, found in series.items()]
    _label_ends(axes, ends, comparison, scheme)
    return figure


@dataclass(frozen=True)
class Plate:
    """A figure of the report: its file name, heading, drawing and how to read it."""

    slug: str
    title: str
    draw: Callable[[Comparison, Scheme], Figure | None]
    reading: str


PLATES = (
    Plate(
        "accuracy",
        "Accuracy for what it cost",
        accuracy,
        "Held-out accuracy against everything generated so far, thrown away or not. Further left is "
        "cheaper, higher is better; a line that ends early trained as many steps for less. Bands are 95% "
        "intervals; the dashed line is the base model before training.",
    ),
    Plate(
        "fates",
        "What became of every rollout",
        fates,
        "The rollouts of each step, stacked by fate. Effective: in a trained group whose rewards differ, "
        "the only ones that teach. Abandoned: drawn for a prompt given up before its group was complete. "
        "Saturated: in a complete group with equal rewards (Uniform and DPS train on it in vain, DS throws "
        "it away). Surplus: in a group beyond the batch. All panels share both axes.",
    ),
    Plate(
        "effective-share",
        "How much of each batch teaches",
        effective_share,
        "The share of trained groups whose rewards differ, step by step. At 100% every group of the batch "
        "carries a gradient; below, the batch is smaller than it looks.",
    ),
)


def png(draw: Callable[[Comparison, Scheme], Figure | None], comparison: Comparison, scheme: Scheme) -> bytes:
    """The figure as a PNG with 256 colours, about a third of the size; empty when there is none."""
    with rc_context({"font.family": fonts(), "axes.unicode_minus": True}):
        figure = draw(comparison, scheme)
        if figure is None:
            return b""
        raw = io.BytesIO()
        FigureCanvasAgg(figure).print_png(raw)
    out = io.BytesIO()
    with Image.open(raw) as image:
        image.convert("RGB").quantize(256).save(out, "PNG", optimize=True, dpi=(DPI, DPI))
    return out.getvalue()


def _panels(scheme: Scheme, rows: int, columns: int, height_in: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout="constrained", facecolor=scheme.paper)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.04, hspace=0.05)
    panels = figure.subplots(rows, columns, sharex=rows > 1, sharey=True, squeeze=False).ravel().tolist()
    for axes in panels:
        dress(axes, scheme)
    return figure, panels


def _draw_curve(axes: Axes, curve: Curve, colour: str) -> None:
    bounded = [(x, s) for x, s in zip(curve.spent, curve.scores, strict=True) if s.low is not None]
    if len(bounded) > 1:
        lows, highs = [100 * s.low for _, s in bounded], [100 * s.high for _, s in bounded]
        axes.fill_between([x for x, _ in bounded], lows, highs, color=colour, alpha=0.1, linewidth=0)
    values = [100 * score.value for score in curve.scores]
    axes.plot(curve.spent, values, color=colour, linewidth=1.6, marker="o", markersize=3)


def _draw_base(axes: Axes, comparison: Comparison, scheme: Scheme) -> None:
    base = comparison.base.get("eval/accuracy")
    if base is not None:
        axes.axhline(100 * base, color=scheme.quiet, linewidth=0.9, dashes=(4, 3))
        place = {"xy": (1, 100 * base), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("base model", **place, xytext=(0, -9), ha="right", color=scheme.quiet, fontsize=8)


def _fate_series(comparison: Comparison, strategy: str) -> dict[str, dict[int, float]]:
    """Fate -> step -> mean rollouts, for the fates that occur at all."""
    found = {fate: mean_series(comparison.of(strategy), f"rollouts/{fate}") for fate in FATES}
    return {fate: dict(zip(*series, strict=True)) for fate, series in found.items() if any(series.values)}


def _draw_fates(axes: Axes, comparison: Comparison, strategy: str, scheme: Scheme) -> set[str]:
    """Stacks one strategy's fates; returns those drawn."""
    series = _fate_series(comparison, strategy)
    steps = sorted(set().union(*series.values()))
    steps = list(range(steps[0], steps[-1] + 1))
    edges = [step - 0.5 for step in steps] + [steps[-1] + 0.5]
    floor = [0.0] * len(steps)
    for fate, values in series.items():
        top = [low + values.get(step, 0.0) for low, step in zip(floor, steps, strict=True)]
        axes.stairs(top, edges, baseline=floor, fill=True, color=scheme.fates[fate], linewidth=0)
        floor = top
    mean = math.fsum(floor) / len(floor)
    colour = scheme.strategy(strategy, comparison.strategies())
    axes.set_title(label(strategy), loc="left", color=colour, fontsize=9, fontweight="bold")
    axes.set_title(f"{formats.count(mean)} a step", loc="right", color=scheme.quiet, fontsize=8)
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: formats.count(y)))
    return set(series)


def _label_ends(
    axes: Axes, ends: Sequence[tuple[str, float, float]], comparison: Comparison, scheme: Scheme
) -> None:
    """Names each line where it ends, pushed apart where two names would touch."""
    halo = [patheffects.withStroke(linewidth=2.5, foreground=scheme.paper)]
    low, high = axes.get_ylim()
    gap = (high - low) * 0.055
    height = -math.inf
    for strategy, x, y in sorted(ends, key=lambda end: end[2]):
        height = max(y, height + gap)
        axes.annotate(
            label(strategy),
            (x, y),
            xytext=(x, height),
            textcoords="data",
            va="center",
            color=scheme.strategy(strategy, comparison.strategies()),
            fontsize=8.5,
            fontweight="bold" if strategy.startswith("sara") else "normal",
            path_effects=halo,
        )
