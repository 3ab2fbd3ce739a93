"""`sara up` and `sara ui`: everything that runs beside the flows, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.comparison_table import say
from flows.commands.options import ConfigOption, Overrides
from flows.environment import set_up_environment

MlflowPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of MLflow's page")]
PrefectPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of Prefect's page and API")]


def up(
    overrides: Overrides = None,
    config: ConfigOption = None,
    mlflow_port: MlflowPort = 5000,
    prefect_port: PrefectPort = 4200,
    slots: Annotated[int, typer.Option(min=1, help="Runs at once: as many as there are GPUs; sweeps come on top")] = 1,
) -> None:
    """Start Prefect's server, a worker with all deployments, and MLflow, on 127.0.0.1, until Ctrl-C."""
    _serve(overrides, config, mlflow_port, prefect_port, slots)


def ui(
    overrides: Overrides = None,
    config: ConfigOption = None,
    mlflow_port: MlflowPort = 5000,
    prefect_port: PrefectPort = 4200,
) -> None:
    """Open MLflow and Prefect on the records, on 127.0.0.1, until Ctrl-C; `sara up` runs flows too."""
    _serve(overrides, config, mlflow_port, prefect_port, slots=None)


def _serve(overrides, config, mlflow_port: int, prefect_port: int, slots: int | None) -> None:
    from sara.sweeps import load_run_config

    tracking = load_run_config(config, overrides or ()).tracking
    set_up_environment()
    from flows.services import serve

    serve(tracking.uri, tracking.experiment, mlflow_port, prefect_port, slots)


def deploy(
    on: Annotated[str, typer.Option("--on", help="local, docker or kubernetes: the kind of work pool")] = "local",
    slots: Annotated[int, typer.Option(min=1, help="Runs at once: the number of GPUs behind the pool")] = 1,
) -> None:
    """Make a work pool and every deployment on it, on the server that PREFECT_API_URL names."""
    set_up_environment()
    from flows.server import require_server
    from flows.work_pools import set_up_pool

    require_server("sara deploy")
    set_up_pool(on, slots)
    say(f"pool     sara-{on}, {slots} at once", f"worker   prefect worker start --pool sara-{on}")


def recover(
    pool: Annotated[str, typer.Option("--pool", help="Work pool")] = "sara-local",
) -> None:
    """Schedule again the runs whose process on this machine is gone (a killed worker leaves them Running)."""
    set_up_environment()
    from flows.lost_runs import reschedule_lost_runs
    from flows.server import require_server

    require_server("sara recover")
    names = reschedule_lost_runs(pool)
    say(*(f"goes on  {name}" for name in names), f"{len(names)} lost runs on this machine")
