"""Cells as runs of the deployment of `cell` on a Prefect work pool: its workers run them, as many as it lets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Cancelling

from flows.executors.base import Job, Outcome, outcome_of
from flows.server import require_server
from sara.sweeps import Execution
from tasks.cells import CellOrder

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

_ALIVE = ["SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"]


class WorkPool:
    """A cell that still runs from an earlier start of the sweep is waited for, not started twice."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.deployment_id: UUID | None = None

    def check(self) -> None:
        require_server("executor = 'workpool'")
        self.deployment_id = self._find_deployment().id

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        waiting: dict[UUID, CellOrder] = {}
        try:
            for config, order in jobs:
                waiting[self._start(config, order)] = order
            yield from self._wait(waiting)
        finally:
            _cancel(list(waiting))

    def _find_deployment(self) -> DeploymentResponse:
        pool = self.execution.work_pool
        with get_client(sync_client=True) as client:
            try:
                template = client.read_work_pool(pool).base_job_template
            except ObjectNotFound:
                names = [known.name for known in client.read_work_pools()]
                near = get_close_matches(pool, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
                raise ValueError(
                    f"execution.work_pool = {pool!r}: no such work pool; {hint} (`sara up` makes sara-local)"
                ) from None
            _check_job_variables(self.execution.job_variables, template, pool)
            found = client.read_deployments(work_pool_filter=WorkPoolFilter(name={"any_": [pool]}))
            cells = [one for one in found if client.read_flow(one.flow_id).name == "cell"]
        if not cells:
            raise ValueError(
                f"execution.work_pool = {pool!r}: no deployment of the flow cell is on it; "
                "make them with `prefect deploy --all` (`sara up` does)"
            )
        return cells[0]

    def _start(self, config, order: CellOrder) -> UUID:
        running = self._running(order)
        if running is not None:
            get_run_logger().info("%s still runs from an earlier start", order.label)
            return running.id
        return run_deployment(
            name=self.deployment_id,
            parameters={"config": config.model_dump(mode="json"), "order": order.model_dump(mode="json")},
            flow_run_name=f"{order.sweep}: {order.label}",
            tags=[f"sweep:{order.sweep}", f"cell:{order.key}"],
            job_variables=self.execution.job_variables or None,
            timeout=0,
        ).id

    def _running(self, order: CellOrder) -> FlowRun | None:
        wanted = FlowRunFilter(tags={"all_": [f"cell:{order.key}"]}, state={"type": {"any_": _ALIVE}})
        with get_client(sync_client=True) as client:
            found = client.read_flow_runs(flow_run_filter=wanted)
        of_deployment = [run for run in found if run.deployment_id == self.deployment_id]
        return of_deployment[0] if of_deployment else None

    def _wait(self, waiting: dict[UUID, CellOrder]) -> Iterator[Outcome]:
        while waiting:
            with get_client(sync_client=True) as client:
                found = client.read_flow_runs(flow_run_filter=FlowRunFilter(id={"any_": list(waiting)}))
            gone = set(waiting) - {run.id for run in found}
            for run in found:
                if run.state is not None and run.state.is_final():
                    yield outcome_of(waiting.pop(run.id), run.state)
            for run_id in gone:
                yield Outcome(waiting.pop(run_id), "failed", "its flow run was deleted")
            if waiting:
                time.sleep(self.execution.poll_s)


def _check_job_variables(given: dict, template: dict, pool: str) -> None:
    """Prefect ignores a variable that the pool does not know, a misspelt request for a GPU too."""
    known = template.get("variables", {}).get("properties", {})
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(sorted(known))}"
            raise ValueError(f"execution.job_variables: work pool {pool!r} has no variable {name!r}; {hint}")


def _cancel(run_ids: Sequence[UUID]) -> None:
    """Ask for the end of the cells that still run; a worker carries it out."""
    if not run_ids:
        return
    with get_client(sync_client=True) as client:
        for run_id in run_ids:
            client.set_flow_run_state(run_id, Cancelling(message="the sweep was stopped"))
