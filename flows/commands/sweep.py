"""`sara sweep`: every strategy and seed at every point of a grid, stopped and continued at will."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.comparison_table import print_comparison, say
from flows.commands.options import AsJson, ConfigOption, Overrides, Verbose
from flows.environment import check_prefect, default_tracking, set_up_environment

if TYPE_CHECKING:
    from prefect.states import State

    from flows.sweep import SweepResult
    from sara.sweeps import SweepConfig

_FAILED = 1
_STOPPED = 130


def sweep(
    overrides: Overrides = None,
    config: ConfigOption = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Run finished cells again")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and run nothing")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train over a grid: grid.allocation.k=4,8 seeds=0,1 executor=local|workpool|ray; finished cells are kept."""
    from sara.config_file import load_config
    from sara.sweeps import SweepConfig

    settings = load_config(SweepConfig, config, [*(overrides or ()), *(["refresh=true"] if refresh else ())])
    settings = default_tracking(settings)
    cells = settings.cells()
    if dry_run:
        _print_plan([cell.label for cell in cells], settings, as_json)
        return
    set_up_environment(verbose)
    check_prefect(settings.executor)
    result = start_sweep(settings)
    print_result(settings, result, as_json)
    if any(cell.error for cell in result.cells):
        raise typer.Exit(_FAILED)


def start_sweep(settings: SweepConfig) -> SweepResult:
    """Run the flow; failed cells are in its result, any other failure is raised."""
    from flows.commands.interruption import start_temporary_server
    from flows.sweep import sweep as sweep_flow

    start_temporary_server()
    return result_of(sweep_flow(settings, return_state=True))


def result_of(state: State) -> Any:
    """What a flow gave, also one that failed with a result; told to stop, the command ends here and says so."""
    if state.is_cancelled():
        say(f"sara: {state.message or 'stopped'}; the same command goes on")
        sys.exit(_STOPPED)  # not typer's, of which the command line makes a second line
    found = state.result(raise_on_failure=False)
    if isinstance(found, BaseException):
        raise found
    return found


def print_result(settings: SweepConfig, result: SweepResult, as_json: bool) -> None:
    """The comparison of the cells that finished, then how each that did not ended."""
    from sara.reporting import rows_as_json, summary_table
    from tasks.tracking import load_comparison

    comparison = None
    if result.report is not None:
        comparison = load_comparison(settings.tracking.uri, settings.tracking.experiment, result.mlflow_run_id)
    if as_json:
        table = rows_as_json(summary_table(comparison)) if comparison else []
        print(json.dumps({"cells": [cell.model_dump(mode="json") for cell in result.cells], "table": table}, indent=2))
    elif comparison:
        print_comparison(comparison, as_json=False)
    for cell in result.cells:
        if cell.error:
            say(f"sara: cell {cell.cell}: {cell.error}")
    say(f"cells    {result.count()}")
    if result.report is not None:
        say(f"report   {result.report}", f"records  {settings.tracking.uri} (look at them with `sara up`)")


def _print_plan(labels: list[str], settings: SweepConfig, as_json: bool) -> None:
    folder = Path(settings.output_dir) / settings.name
    if as_json:
        print(json.dumps({"folder": str(folder), "executor": settings.executor, "cells": labels}, indent=2))
        return
    print("\n".join(labels))
    say(f"{len(labels)} cells, executor {settings.executor}, in {folder}")
