"""The look of the figures: ink and paper for both colour schemes, one colour a strategy and a fate.

Strategy colours follow Okabe and Ito's colour-blind-safe set; the fates differ in lightness too,
so that they survive a greyscale print.
"""

from dataclasses import dataclass

from matplotlib import font_manager
from matplotlib.axes import Axes

from sara.reporting.comparison import bare_strategy

_FAMILIES = ("Inter", "Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")
DPI = 200  # twice the 100 dots an inch that a page shows
WIDTH_IN = 9.6
_SPARE = ("#999933", "#882255", "#44AA99", "#AA4499", "#117733", "#661100")


@dataclass(frozen=True)
class Scheme:
    """Colours of one scheme: `paper` behind, `ink` for text, `quiet` for axes, `faint` for grids,
    `trace` for lines in the background, `levels` for how hard a group is and `on_levels` for text on them."""

    name: str
    paper: str
    ink: str
    quiet: str
    faint: str
    trace: str
    strategies: dict[str, str]
    fates: dict[str, str]
    levels: dict[str, str]
    on_levels: dict[str, str]

    def strategy(self, name: str, others: tuple[str, ...] = ()) -> str:
        """The strategy's colour, paler for each further variant of it; a strategy we do not know takes a spare one
        by its place in `others`."""
        siblings = [other for other in others if bare_strategy(other) == bare_strategy(name)]
        place = siblings.index(name) / len(siblings) if name in siblings else 0.0
        name, *others = map(bare_strategy, (name, *others))
        if name in self.strategies:
            return _blended(self.strategies[name], self.paper, 0.7 * place)
        unknown = [other for other in others if other not in self.strategies]
        return _SPARE[unknown.index(name) % len(_SPARE)] if name in unknown else self.quiet


def _blended(colour: str, paper: str, share: float) -> str:
    """A colour with a share of the paper's in it."""
    pairs = ((int(colour[at : at + 2], 16), int(paper[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round((1 - share) * ink + share * of_paper):02x}" for ink, of_paper in pairs)


LIGHT = Scheme(
    name="light",
    paper="#ffffff",
    ink="#1c1c1a",
    quiet="#6b6a66",
    faint="#ebe9e4",
    trace="#cfccc4",
    strategies={
        "uniform": "#7d7b76",
        "ds": "#0072b2",
        "dps": "#4aa3d8",
        "ds+dps": "#b0659a",
        "sara": "#d55e00",
        "sara+dps": "#00876a",
    },
    fates={
        "effective": "#20636b",
        "abandoned": "#e3b04b",
        "audited": "#efd7a0",
        "saturated": "#bf5b45",
        "surplus": "#a9a7c4",
        "unfinished": "#c9c7c1",
        "aborted": "#8a8f6a",
        "missing": "#4b4a47",
    },
    levels={"hard": "#2f4a6d", "medium": "#7d9cc0", "easy": "#d3dfec"},
    on_levels={"hard": "#ffffff", "medium": "#1c1c1a", "easy": "#1c1c1a"},
)
DARK = Scheme(
    name="dark",
    paper="#161615",
    ink="#eceae4",
    quiet="#a09e97",
    faint="#2c2b29",
    trace="#4a4945",
    strategies={
        "uniform": "#a5a39c",
        "ds": "#4a9fe0",
        "dps": "#8fd0f5",
        "ds+dps": "#d995c4",
        "sara": "#f0803c",
        "sara+dps": "#35c29c",
    },
    fates={
        "effective": "#3f9aa3",
        "abandoned": "#e3b04b",
        "audited": "#8a7340",
        "saturated": "#c9644d",
        "surplus": "#8583a8",
        "unfinished": "#5c5a55",
        "aborted": "#a3a97c",
        "missing": "#d8d6cf",
    },
    levels={"hard": "#9cc3ee", "medium": "#51779f", "easy": "#2a3c52"},
    on_levels={"hard": "#161615", "medium": "#eceae4", "easy": "#eceae4"},
)


def fonts() -> list[str]:
    """The families that are installed here, best first (naming others makes matplotlib warn)."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [family for family in _FAMILIES if family in installed] or ["sans-serif"]


def dress(axes: Axes, scheme: Scheme) -> None:
    """Two thin spines, horizontal grid lines behind the marks, quiet ticks."""
    axes.set_facecolor(scheme.paper)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(color=scheme.quiet, linewidth=0.6)
    axes.grid(axis="y", color=scheme.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=scheme.quiet, labelsize=8, length=2.5, width=0.6)
    axes.xaxis.label.set(color=scheme.ink, fontsize=8.5)
    axes.yaxis.label.set(color=scheme.ink, fontsize=8.5)
