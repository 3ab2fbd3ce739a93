"""What a strategy trains on: how hard its groups are, beside DS's.

Owns the counts and their figure. A group without a gradient (its rewards all equal) is no part of a
curriculum, so only effective groups are counted where the runs say how many of the others there were.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sara.reporting import formats
from sara.reporting.comparison import Comparison, TrainingRun, label
from sara.reporting.curves import mean_series
from sara.reporting.style import DPI, WIDTH_IN, Scheme
from sara.reporting.summary import REFERENCE

LEVELS = ("hard", "medium", "easy")  # success rate below 1/3, between, above 2/3
_PALE = 0.45  # opacity of a bar that holds saturated groups too
_COLUMNS = {"groups": 1.12, "signal": 1.24}  # right edges of the columns beside the bars, in widths of the axes


@dataclass(frozen=True)
class Curriculum:
    """One strategy's trained groups, a step's mean over all steps and seeds.

    groups        groups of each of LEVELS
    is_effective  whether saturated groups are left out
    signal        sum of r (1 - r) over the groups; None: not known
    """

    strategy: str
    groups: tuple[float, float, float]
    is_effective: bool
    signal: float | None

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(count / sum(self.groups) for count in self.groups)


def curricula(comparison: Comparison) -> list[Curriculum]:
    """One for each strategy that trained on a group."""
    found = (_curriculum(strategy, comparison.of(strategy)) for strategy in comparison.strategies())
    return [curriculum for curriculum in found if curriculum]


def draw_curricula(comparison: Comparison, scheme: Scheme) -> Figure | None:
    """A bar a strategy, split by difficulty, with DS's splits running through all of them."""
    bars = curricula(comparison)
    if not bars:
        return None
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.36 * len(bars)), dpi=DPI, facecolor=scheme.paper)
    top, bottom = (1 - inches / figure.get_figheight() for inches in (0.5, 0.5 + 0.36 * len(bars)))
    names = [formats.panel_name(label(bar.strategy)) for bar in bars]
    left = max(1.1, *(0.09 * len(name) for name in names)) / WIDTH_IN
    axes = figure.add_axes((left, bottom, 0.82 - left, top - bottom), facecolor=scheme.paper)
    for row, (bar, name) in enumerate(zip(bars, names, strict=True)):
        _draw_bar(axes, row, bar, scheme)
        colour = scheme.strategy(bar.strategy, comparison.strategies())
        weight = "bold" if bar.strategy.startswith("sara") else "normal"
        axes.text(-0.012, row, name, color=colour, fontsize=9.5, fontweight=weight, ha="right", va="center")
    _draw_reference(axes, bars, scheme)
    _head_columns(axes, scheme)
    axes.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5), yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100%"])
    axes.tick_params(axis="x", colors=scheme.quiet, labelsize=8, length=2.5, width=0.6)
    figure.legend(
        handles=[Patch(color=scheme.levels[level], label=level) for level in LEVELS],
        loc="upper left",
        bbox_to_anchor=(left - 0.005, 1.0),
        ncols=len(LEVELS),
        frameon=False,
        fontsize=8.5,
        labelcolor=scheme.ink,
        handlelength=0.9,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.6,
        borderpad=0.2,
    )
    return figure


def read_curricula(comparison: Comparison) -> str:
    """How to read the figure."""
    bars = curricula(comparison)
    said = [
        "Trained groups by their success rate, all steps together: hard below a third, easy above two thirds. "
        "Only groups whose rewards differ are counted; the others teach nothing."
    ]
    if any(not bar.is_effective for bar in bars):
        said.append("Pale bars hold groups with equal rewards too, which these runs did not count apart.")
    if len(bars) > 1 and REFERENCE in {bar.strategy for bar in bars}:
        said.append(
            "The dotted lines are DS's splits: a strategy whose bar breaks elsewhere trains on another mix of "
            "problems, and one that gives up hard prompts early has a shorter hard part."
        )
    said.append("Groups and signal, the sum of r(1 − r) over their success rates r, are means of a step.")
    return " ".join(said)


def _curriculum(strategy: str, runs: Sequence[TrainingRun]) -> Curriculum | None:
    counts = {level: _mean_of_a_step(runs, f"trained/{level}") for level in LEVELS}
    if None in counts.values() or not sum(counts.values()):
        return None
    saturated = [_mean_of_a_step(runs, f"trained/{side}") for side in ("all_fail", "all_pass")]
    is_all_effective = all(share == 1 for run in runs for share in _shares_where_trained(run))
    if None in saturated and is_all_effective:
        saturated = [0.0, 0.0]
    is_effective = None not in saturated
    if is_effective:
        counts["hard"] -= saturated[0]
        counts["easy"] -= saturated[1]
    signal = _mean_of_a_step(runs, "gradient_signal")
    groups = tuple(max(counts[level], 0.0) for level in LEVELS)
    return Curriculum(strategy, groups, is_effective, signal) if sum(groups) else None


def _mean_of_a_step(runs: Sequence[TrainingRun], metric: str) -> float | None:
    values = mean_series(runs, metric).values
    return sum(values) / len(values) if values else None


def _shares_where_trained(run: TrainingRun) -> list[float]:
    share, trained = run.series("effective_share").finite(), run.series("groups/trained")
    return [x for step, x in zip(share.steps, share.values, strict=True) if trained.at(step)]


def _draw_bar(axes: Axes, row: int, bar: Curriculum, scheme: Scheme) -> None:
    left = 0.0
    for level, share in zip(LEVELS, bar.shares, strict=True):
        alpha = 1.0 if bar.is_effective else _PALE
        axes.barh(row, share, 0.62, left, color=scheme.levels[level], alpha=alpha, linewidth=0)
        if share >= 0.06:
            ink = scheme.on_levels[level] if bar.is_effective else scheme.ink
            axes.text(left + share / 2, row, f"{100 * share:.0f}", color=ink, fontsize=8, ha="center", va="center")
        left += share
    signal = formats.NOTHING if bar.signal is None else f"{bar.signal:.2f}"
    for text, right in ((f"{sum(bar.groups):.1f}", _COLUMNS["groups"]), (signal, _COLUMNS["signal"])):
        axes.text(right, row, text, color=scheme.ink, fontsize=8.5, ha="right", va="center")


def _draw_reference(axes: Axes, bars: Sequence[Curriculum], scheme: Scheme) -> None:
    reference = next((bar for bar in bars if bar.strategy == REFERENCE), None)
    if reference is None or len(bars) < 2:
        return
    hard, medium, _ = reference.shares
    for split in (hard, hard + medium):
        axes.plot([split, split], [-0.45, len(bars) - 0.55], color=scheme.ink, linewidth=0.8, linestyle=(0, (1, 2)))


def _head_columns(axes: Axes, scheme: Scheme) -> None:
    for name, right in _COLUMNS.items():
        axes.annotate(
            f"{name}\na step",
            (right, 1),
            xycoords="axes fraction",
            xytext=(0, 3),
            textcoords="offset points",
            color=scheme.quiet,
            fontsize=8,
            ha="right",
        )
