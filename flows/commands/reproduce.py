"""`sara reproduce`: the paper's tables, at its scale or at a laptop's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.comparison_table import say
from flows.commands.options import AsJson, ConfigOption, Overrides, Verbose
from flows.environment import check_prefect, default_tracking, set_up_environment

if TYPE_CHECKING:
    from sara.sweeps import SweepConfig

_FAILED = 1


def reproduce(
    overrides: Overrides = None,
    config: ConfigOption = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Run finished cells again")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained and run nothing")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make the paper's tables: tables=math,threshold scale=paper|small seeds=0,1,2 settings.training.steps=20."""
    from sara.config_file import load_config
    from sara.experiments import ReproduceConfig

    settings = load_config(ReproduceConfig, config, [*(overrides or ()), *(["refresh=true"] if refresh else ())])
    if dry_run:
        _print_plan(settings.sweeps(), as_json)
        return
    set_up_environment(verbose)
    check_prefect(settings.executor)
    from flows.commands.interruption import start_temporary_server
    from flows.commands.sweep import result_of
    from flows.reproduce import reproduce as reproduce_flow

    start_temporary_server()
    found = result_of(reproduce_flow(settings, return_state=True))
    _print_tables(found.tables, {name: default_tracking(one) for name, one in settings.sweeps().items()}, as_json)
    if any(table.error for table in found.tables):
        raise typer.Exit(_FAILED)


def _print_tables(tables, sweeps: dict[str, SweepConfig], as_json: bool) -> None:
    if as_json:
        print(json.dumps([table.model_dump(mode="json") for table in tables], indent=2))
        return
    from flows.commands.sweep import print_result

    for table in tables:
        print(f"\n{table.title}\n")
        if table.result is not None:
            print_result(sweeps[table.name], table.result, as_json=False)
        if table.error:
            say(f"sara: table {table.name}: {table.error}")


def _print_plan(sweeps: dict[str, SweepConfig], as_json: bool) -> None:
    """What each table trains: cells, and the rollouts of uniform sampling beside the most that may be drawn."""
    from sara.experiments import EXPERIMENTS

    plans = []
    for name, settings in sweeps.items():
        cells = settings.cells()
        runs = [cell.config for cell in cells]
        plans.append(
            {
                "table": name,
                "title": EXPERIMENTS[name].title,
                "claim": EXPERIMENTS[name].claim,
                "model": settings.model.path,
                "cells": len(cells),
                "steps": settings.training.steps,
                "uniform_rollouts": sum(
                    run.training.steps * run.allocation.groups_per_step * run.allocation.k for run in runs
                ),
                "most_rollouts": sum(run.training.steps * run.allocation.rollout_cap for run in runs),
                "folder": str(Path(settings.output_dir) / settings.name),
            }
        )
    if as_json:
        print(json.dumps(plans, indent=2))
        return
    for plan in plans:
        print(f"{plan['table']:<12} {plan['title']}")
        print(f"{'':<12} the paper: {plan['claim']}")
        print(f"{'':<12} {plan['cells']} cells of {plan['steps']} steps with {plan['model']}, in {plan['folder']}")
        print(
            f"{'':<12} {plan['uniform_rollouts']:,} rollouts if all were uniform; never over {plan['most_rollouts']:,}"
        )
