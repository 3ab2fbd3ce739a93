"""The report's figures in order: what each is called, how it is read, and its picture."""

import io
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from sara.reporting import figures
from sara.reporting.comparison import Comparison
from sara.reporting.curriculum import draw_curricula, read_curricula
from sara.reporting.style import DPI, Scheme, fonts

_FATES = {
    "effective": "in a trained group whose rewards differ, the only ones that teach",
    "abandoned": "drawn for a prompt given up before its group was complete",
    "audited": "drawn for a prompt that was given up but completed all the same, to see whether that was right",
    "saturated": "in a complete group with equal rewards, trained on in vain or thrown away",
    "surplus": "in a mixed group beyond the batch",
    "unfinished": "of a prompt still open when the step ended",
    "aborted": "cut short, or not counted, because its prompt was decided without it",
    "missing": "could not be scored",
}


@dataclass(frozen=True)
class Plate:
    """A figure of the report: its file name, heading, drawing and how to read it."""

    slug: str
    title: str
    draw: Callable[[Comparison, Scheme], Figure | None]
    reading: Callable[[Comparison], str]


def png(plate: Plate, comparison: Comparison, scheme: Scheme) -> bytes:
    """The figure as a PNG with 256 colours (a third of the size); empty when it has nothing to show."""
    with rc_context({"font.family": fonts()}):
        figure = plate.draw(comparison, scheme)
        if figure is None:
            return b""
        raw = io.BytesIO()
        FigureCanvasAgg(figure).print_png(raw)
    out = io.BytesIO()
    with Image.open(raw) as image:
        image.convert("RGB").quantize(256).save(out, "PNG", optimize=True, dpi=(DPI, DPI))
    return out.getvalue()


def _read_accuracy(comparison: Comparison) -> str:
    base = "; the dashed line is the base model before training" if "eval/accuracy" in comparison.base else ""
    return (
        "Held-out accuracy against everything generated so far, thrown away or not. Further left is cheaper, "
        "higher is better; a line that ends early took the same steps for less. "
        f"Bands are 95% intervals{base}."
    )


def _read_fates(comparison: Comparison) -> str:
    meanings = [f"{fate.capitalize()}: {_FATES[fate]}." for fate in figures.fates_seen(comparison)]
    return " ".join(["The rollouts of each step, stacked by fate.", *meanings, "All panels share both scales."])


def _read_effective_share(comparison: Comparison) -> str:
    others = ", with the other strategies in grey" if len(comparison.strategies()) > 1 else ""
    return (
        f"The share of trained groups whose rewards differ, step by step{others}. At 100% every group of "
        "the batch carries a gradient; below, the batch is smaller than it looks."
    )


PLATES = (
    Plate("accuracy", "Accuracy for what it cost", figures.accuracy, _read_accuracy),
    Plate("fates", "What became of every rollout", figures.fates, _read_fates),
    Plate("effective-share", "How much of each batch teaches", figures.effective_share, _read_effective_share),
    Plate("curriculum", "How hard the trained groups were", draw_curricula, read_curricula),
)
