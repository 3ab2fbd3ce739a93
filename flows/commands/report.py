"""`sara report`: any runs of a tracking store side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.comparison_table import print_comparison, say
from flows.commands.options import AsJson, ConfigOption, Overrides
from flows.environment import default_tracking, set_up_environment


def report(
    overrides: Overrides = None,
    config: ConfigOption = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", help="MLflow run id of a comparison, a sweep or a training run; may be repeated"),
    ] = None,
    sweep: Annotated[str, typer.Option("--sweep", help="Name of a sweep: its newest record")] = "",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="NAME=VALUE that training runs carry; may be repeated")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the report to")] = Path("outputs/report"),
    as_json: AsJson = False,
) -> None:
    """Write the report of the newest comparison, or of any runs, from their MLflow records (a server's too)."""
    from sara.sweeps import load_run_config

    if sum(map(bool, (run, sweep, tag))) > 1:
        raise ValueError("report: --run, --sweep and --tag given together; expected one of them")
    tags = dict(_tag(text) for text in tag or ())
    tracking = default_tracking(load_run_config(config, overrides or ())).tracking
    set_up_environment()
    from tasks.comparisons import Selection
    from tasks.report import write_selection_report

    selection = Selection(tuple(run or ()), sweep, tags)
    comparison, page = write_selection_report(tracking.uri, tracking.experiment, out, selection)
    print_comparison(comparison, as_json)
    say(f"report   {page}")


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--tag {text}: expected NAME=VALUE, such as sara.strategy=sara")
    return name, value
