"""A plan for readers: its table, its figure and its files."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sara.planning.plan import Plan
from sara.planning.predict import Prediction, num_prompts
from sara.reporting import formats
from sara.reporting.figures import DPI, WIDTH_IN
from sara.reporting.style import LIGHT as SCHEME
from sara.reporting.style import dress

PLAIN_WIDTH = 140
_COLUMNS = (
    "strategy",
    "rollouts\na step",
    "tokens\na step",
    "rounds",
    "effective\ngroups",
    "rollouts\na group",
    "tokens,\n% of DS",
    "GPU hours\nof the run",
    "by",
)


def render_text(plan: Plan, *, terminal_width: int | None = None) -> str:
    """The table; the cheapest strategy in bold in a terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for title in _COLUMNS:
        is_name = title == _COLUMNS[0]
        table.add_column(Text(title), justify="left" if is_name else "right", no_wrap=True, vertical="bottom")
    for row in plan.predictions:
        table.add_row(*map(Text, _cells(row)), style="bold" if row is plan.best else None)
    out = io.StringIO()
    width = terminal_width or PLAIN_WIDTH
    Console(file=out, width=width, force_terminal=terminal_width is not None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render_markdown(plan: Plan) -> str:
    lines = [
        "| " + " | ".join(title.replace("\n", " ") for title in _COLUMNS) + " |",
        "|:---|" + "---:|" * (len(_COLUMNS) - 1),
    ]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in plan.predictions]
    return "\n".join(lines) + "\n"


def as_json(plan: Plan) -> dict[str, Any]:
    return {
        "config": plan.config.model_dump(mode="json"),
        "prompts": num_prompts(plan.config, plan.pool),
        "origin": plan.pool.origin,
        "advice": asdict(plan.advice) if plan.advice else None,
        "strategy": plan.best.strategy if plan.best else None,
        "predictions": [asdict(row) for row in plan.predictions],
        "sentences": plan.sentences,
    }


def write_plan(folder: Path, plan: Plan) -> list[Path]:
    """`plan.json`, `plan.md` and `plan.png`, into an existing folder; returns their paths."""
    numbers, table, picture = folder / "plan.json", folder / "plan.md", folder / "plan.png"
    numbers.write_text(json.dumps(as_json(plan), indent=2) + "\n", encoding="utf-8")
    table.write_text(render_markdown(plan) + "\n" + "\n".join(plan.sentences) + "\n", encoding="utf-8")
    draw(plan).savefig(picture)
    return [numbers, table, picture]


def draw(plan: Plan) -> Figure:
    """GPU hours of the run, and rounds a step, one bar a row."""
    figure = Figure(figsize=(WIDTH_IN, 1.2 + 0.3 * len(plan.predictions)), dpi=DPI, layout="constrained")
    figure.set_facecolor(SCHEME.paper)
    panels = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    places = np.arange(len(plan.predictions))[::-1]
    colours = [SCHEME.strategy(row.strategy) for row in plan.predictions]
    columns = (
        ([row.gpu_hours for row in plan.predictions], "GPU hours of the run"),
        ([row.rounds for row in plan.predictions], "rounds a step"),
    )
    for axes, (values, title) in zip(panels, columns, strict=True):
        dress(axes, SCHEME)
        axes.grid(visible=False)
        axes.bar_label(axes.barh(places, values, color=colours, height=0.62), fmt="%.3g", padding=3, fontsize=8)
        axes.set_xlabel(title)
        axes.margins(x=0.12)
    panels[0].set_yticks(places, [row.label for row in plan.predictions])
    return figure


def _cells(row: Prediction) -> list[str]:
    error = f" ±{row.rollouts_error:.0f}" if row.rollouts_error else ""
    return [
        row.label,
        f"{row.rollouts:.0f}{error}",
        formats.count(row.tokens),
        formats.rounds(row.rounds),
        f"{row.groups:.1f}",
        formats.NOTHING if row.rollouts_per_group is None else f"{row.rollouts_per_group:.1f}",
        formats.NOTHING if row.tokens_vs_ds is None else f"{100 * row.tokens_vs_ds:.0f}",
        formats.count(row.gpu_hours) if row.gpu_hours >= 100 else f"{row.gpu_hours:.3g}",
        row.method,
    ]
