"""Names written at the ends of lines instead of a legend, where they cover least."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes

FONT_POINTS = 8.5
_SAMPLES = 60  # points along each segment of a line, to see what a name would cover


@dataclass(frozen=True)
class NamedLine:
    """A line in data coordinates, and how its name is to be written."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    is_bold: bool = False


class _Place(NamedTuple):
    """Where a name goes, as an offset in points from the line's end."""

    dx: float
    dy: float
    ha: str
    va: str


_PLACES = (
    _Place(6, 0, "left", "center"),
    _Place(5, 4, "left", "bottom"),
    _Place(5, -4, "left", "top"),
    _Place(0, 6, "center", "bottom"),
    _Place(0, -6, "center", "top"),
    _Place(-4, 5, "right", "bottom"),
    _Place(-4, -5, "right", "top"),
)


def name_lines(axes: Axes, lines: Sequence[NamedLine], paper: str) -> None:
    """Writes each name beside the end of its line, in the place that covers the fewest lines and names."""
    axes.figure.draw_without_rendering()  # settles the layout, so that pixels are known
    ink = np.concatenate([_sampled(axes, line) for line in lines])
    taken: list[np.ndarray] = []
    halo = [patheffects.withStroke(linewidth=2.2, foreground=paper)]
    for line in lines:
        end = axes.transData.transform((line.x[-1], line.y[-1]))
        boxes = [_box(axes, line.name, end, place) for place in _PLACES]
        costs = [_cost(axes, box, ink, taken) for box in boxes]
        best = int(np.argmin(costs))
        taken.append(boxes[best])
        place = _PLACES[best]
        text = axes.annotate(
            line.name,
            (line.x[-1], line.y[-1]),
            xytext=(place.dx, place.dy),
            textcoords="offset points",
            ha=place.ha,
            va=place.va,
            color=line.colour,
            fontsize=FONT_POINTS,
            fontweight="bold" if line.is_bold else "normal",
            path_effects=halo,
        )
        text.set_in_layout(False)


def _sampled(axes: Axes, line: NamedLine) -> np.ndarray:
    """(T, 2) pixels along the line."""
    corners = axes.transData.transform(np.column_stack([line.x, line.y]))
    along = np.linspace(0, len(corners) - 1, _SAMPLES * len(corners))
    at = np.arange(len(corners))
    return np.column_stack([np.interp(along, at, corners[:, axis]) for axis in (0, 1)])


def _box(axes: Axes, name: str, end: np.ndarray, place: _Place) -> np.ndarray:
    """Left, bottom, right, top in pixels; the width is an estimate, good enough to avoid collisions."""
    pixels = axes.figure.dpi / 72
    width, height = 0.58 * FONT_POINTS * len(name) * pixels, 1.25 * FONT_POINTS * pixels
    left = end[0] + place.dx * pixels - {"left": 0, "center": width / 2, "right": width}[place.ha]
    bottom = end[1] + place.dy * pixels - {"bottom": 0, "center": height / 2, "top": height}[place.va]
    return np.array([left, bottom, left + width, bottom + height])


def _cost(axes: Axes, box: np.ndarray, ink: np.ndarray, taken: Sequence[np.ndarray]) -> float:
    """Line pixels under the name; a touch of another name or of the frame costs more than any line."""
    left, bottom, right, top = box
    under = (ink[:, 0] > left) & (ink[:, 0] < right) & (ink[:, 1] > bottom) & (ink[:, 1] < top)
    frame = axes.bbox
    outside = right > axes.figure.bbox.x1 or bottom < frame.y0 or top > frame.y1 + (top - bottom)
    touches = sum(left < b[2] and right > b[0] and bottom < b[3] and top > b[1] for b in taken)
    return float(under.sum() + 1000 * touches + 1000 * outside)
