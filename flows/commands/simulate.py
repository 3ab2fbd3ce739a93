"""`sara simulate`: every strategy on populations of success rates, without a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def simulate(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings that win over the file, such as grid.k=8,16"),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/simulate.toml")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for numbers, table and figures")] = Path(
        "outputs/simulation"
    ),
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that play runs at the same time")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")] = False,
) -> None:
    """What each strategy would cost on a population of prompts: no model, seconds instead of days."""
    from sara.config_file import load_config
    from sara.simulation.config import SimulateConfig

    settings = load_config(SimulateConfig, config, overrides or ())
    from flows.commands.outcome import open_folder, progress, short_warnings, terminal_width
    from sara.simulation import report, tables
    from sara.simulation.study import simulate_all
    from sara.simulation.summary import summarise

    open_folder(out)
    with short_warnings(), progress("simulating") as on_progress:
        traces = simulate_all(settings, workers, on_progress)
    rows = summarise(settings, traces)
    paths = report.write_simulation(out, settings, rows, traces)
    if as_json:
        print(json.dumps(report.as_json(settings, rows), indent=2))
        return
    print(tables.render_text(settings, rows, terminal_width=terminal_width()))
    print("\n".join(tables.notes(settings)))
    print(f"files    {' '.join(map(str, paths))}", file=sys.stderr)
