"""Cells as Prefect tasks on a Ray cluster, by prefect-ray."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.cell import run_cell
from flows.executors.base import Job, Outcome, outcome_of
from flows.server import require_server
from sara.config import RunConfig
from sara.sweeps import Execution
from tasks.cells import CellOrder, CellResult

_OPTIONS = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "runtime_env", "max_retries")


@task(name="cell-on-ray", cache_policy=NO_CACHE, task_run_name="{order.label}")
def run_cell_on_ray(config: RunConfig, order: CellOrder) -> CellResult:
    """The cell's flow, inside a Ray worker.

    Its error crosses to the sweep's process as text: not every exception can be pickled.
    """
    state = run_cell(config, order, return_state=True)
    outcome = outcome_of(order, state)
    if outcome.error:
        raise RuntimeError(outcome.error)
    return state.result()


class Ray:
    """All cells are submitted at once; Ray places them by what each reserves (`execution.ray_options`)."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def check(self) -> None:
        if find_spec("prefect_ray") is None:
            raise ValueError("executor = 'ray' needs prefect-ray; install it with pip install 'sara-rl[ray]'")
        unknown = sorted(set(self.execution.ray_options) - set(_OPTIONS))
        if unknown:
            raise ValueError(f"execution.ray_options has the key {unknown[0]}; expected one of {', '.join(_OPTIONS)}")
        require_server("executor = 'ray'")
        _connect(self.execution)

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        from prefect_ray import RayTaskRunner

        runner = RayTaskRunner(address=self.execution.ray_address)
        yield from _cells_on_ray.with_options(task_runner=runner)(list(jobs), self.execution.ray_options)


@flow(name="cells-on-ray", validate_parameters=False)
def _cells_on_ray(jobs: list[Job], options: dict) -> list[Outcome]:
    """A flow of its own because Prefect binds a task runner to a flow."""
    from prefect_ray.context import remote_options

    reserved = {"num_cpus": 1, "max_retries": 0} | options
    with remote_options(**reserved):
        futures = [run_cell_on_ray.submit(config, order) for config, order in jobs]
    for future in futures:
        future.wait()
    return [outcome_of(order, future.state) for (_, order), future in zip(jobs, futures, strict=True)]


def _connect(execution: Execution) -> None:
    """Raises ValueError if the cluster does not answer or will never have what a cell reserves."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if not ray.is_initialized():
        try:
            ray.init(address=execution.ray_address, include_dashboard=False, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"execution.ray_address = {execution.ray_address!r}: no Ray cluster answers there "
                f"({type(error).__name__}); start one with `ray start --head`, or leave it out to use this machine"
            ) from None
    there = ray.cluster_resources()
    wanted = {"CPU": execution.ray_options.get("num_cpus", 1), "GPU": execution.ray_options.get("num_gpus", 0)}
    wanted |= execution.ray_options.get("resources", {})
    for name, amount in wanted.items():
        if amount > there.get(name, 0):
            with contextlib.suppress(Exception):
                ray.shutdown()
            raise ValueError(
                f"execution.ray_options: a cell reserves {amount} {name}; expected at most {there.get(name, 0):g}, "
                "what the cluster has (Ray would wait for it without end)"
            )
