"""Writes what a simulation found into a folder: numbers, table and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sara.simulation.config import SimulateConfig
from sara.simulation.figures import draw_all
from sara.simulation.run import Trace
from sara.simulation.summary import Row
from sara.simulation.tables import notes, render_markdown


def as_json(config: SimulateConfig, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything of the table, and what it was made with."""
    return {"config": config.model_dump(mode="json"), "rows": [row.as_json() for row in rows]}


def write_simulation(folder: Path, config: SimulateConfig, rows: Sequence[Row], traces: Sequence[Trace]) -> list[Path]:
    """`simulation.json`, `table.md` and the figures, into an existing folder; returns their paths."""
    numbers, table = folder / "simulation.json", folder / "table.md"
    numbers.write_text(json.dumps(as_json(config, rows), indent=2) + "\n", encoding="utf-8")
    table.write_text(render_markdown(config, rows) + "\n" + "\n".join(notes(config)) + "\n", encoding="utf-8")
    paths = [numbers, table]
    for name, figure in draw_all(config, rows, traces).items():
        figure.savefig(folder / name)
        paths.append(folder / name)
    return paths
