"""The sweep: every strategy and seed at every point, on one machine or many; stopped and continued at will."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from prefect import flow
from prefect.states import Cancelled, Completed, Failed, State
from pydantic import BaseModel

from flows.environment import default_tracking
from flows.executors import EXECUTORS, Executor, Outcome
from flows.executors.base import Job, SweepStopped, one_line
from flows.naming import tag_run
from sara.sweeps import SweepCell, SweepConfig, cell_key, data_key
from tasks.artifacts import SweepProgress, publish_run_link
from tasks.cells import CellOrder, cell_folder, hold, read_result, set_aside
from tasks.mlflow_runs import sweep_run
from tasks.prepare import data_hashes, prepare_data
from tasks.report import make_report
from tasks.sync import is_delivered
from tasks.tracking import mlflow_run_id


class Prepared(NamedTuple):
    """Content hashes of a data set, or why it cannot be prepared."""

    hashes: dict[str, str]
    error: ValueError | None = None


class CellOutcome(BaseModel):
    """How one cell of a sweep ended, in words for a table."""

    cell: str
    status: str
    error: str = ""
    folder: Path


class SweepResult(BaseModel):
    """Where a sweep's results are and how each cell ended."""

    folder: Path
    mlflow_run_id: str | None
    report: Path | None
    cells: list[CellOutcome]

    def count(self) -> str:
        """`3 finished, 1 failed`."""
        counts = Counter(cell.status for cell in self.cells)
        return ", ".join(f"{number} {status}" for status, number in counts.items())


@flow(name="sweep", flow_run_name="sweep {config.name} ({config.executor})")
def sweep(config: SweepConfig) -> State[SweepResult]:
    """Train every strategy and seed at every point of the grid, and report them side by side.

    Cells that finished before, with the same settings, data and code, are not run again; a cell that fails
    is reported and the others go on. Stop it and start it again: it goes on where it was.
    The run ends as Failed if a cell failed.
    """
    try:
        result = run_sweep(config)
    except SweepStopped as stop:
        return Cancelled(message=str(stop))
    failed = [cell for cell in result.cells if cell.error]
    if failed:
        said = "; ".join(f"{cell.cell}: {cell.error}" for cell in failed[:3])
        return Failed(message=f"{len(failed)} of {len(result.cells)} cells did not finish: {said}", data=result)
    return Completed(message=result.count(), data=result)


def run_sweep(config: SweepConfig) -> SweepResult:
    """The sweep itself, inside a flow run."""
    config = default_tracking(config)
    cells = config.cells()
    tag_run("sweep", f"sweep:{config.name}", f"executor:{config.executor}")
    executor = EXECUTORS[config.executor](config.execution)
    executor.check()
    with hold(config.output_dir.absolute() / config.name, "this sweep") as folder:
        prepared = _prepare(cells, folder)
        with sweep_run(config, folder):
            publish_run_link(config.tracking, folder, "sweep")
            jobs = [_job(config, cell, prepared[data_key(cell.config)].hashes, folder) for cell in cells]
            errors = {cell.label: prepared[data_key(cell.config)].error for cell in cells}
            outcomes = {outcome.order.label: outcome for outcome in _run(config, executor, jobs, errors)}
        report = _report(config, folder, list(outcomes.values()))
    ended = [outcomes[cell.label] for cell in cells]
    described = [CellOutcome(cell=o.order.label, status=o.status, error=o.error, folder=o.order.folder) for o in ended]
    return SweepResult(folder=folder, mlflow_run_id=mlflow_run_id(folder), report=report, cells=described)


def _prepare(cells: list[SweepCell], folder: Path) -> dict[str, Prepared]:
    """Each data set that cells ask for, by its key: prepared once here for its hashes, and again by each cell.

    Raises the error of one that cannot be prepared only if none can.
    """
    found: dict[str, Prepared] = {}
    for cell in cells:
        key = data_key(cell.config)
        if key not in found:
            try:
                found[key] = Prepared(data_hashes(prepare_data(cell.config, folder / "data" / key)))
            except ValueError as error:
                found[key] = Prepared({}, error)
    errors = [prepared.error for prepared in found.values() if prepared.error]
    if len(errors) == len(found):
        raise errors[0]
    return found


def _job(config: SweepConfig, cell: SweepCell, hashes: dict[str, str], folder: Path) -> Job:
    key = cell_key(cell.config, hashes)
    order = CellOrder(
        sweep=config.name,
        label=cell.label,
        key=key,
        point=cell.point,
        data_hashes=hashes,
        sweep_folder=folder,
        folder=cell_folder(folder, cell, key),
    )
    return cell.config, order


def _run(
    config: SweepConfig, executor: Executor, jobs: list[Job], errors: dict[str, Exception | None]
) -> list[Outcome]:
    """Outcomes in the order in which cells ended, those that were finished before or cannot begin first."""
    if config.refresh:
        for _, order in jobs:
            set_aside(order.folder)
    outcomes = [Outcome(order, "was finished") for _, order in jobs if read_result(order.folder, order.key)]
    outcomes += [
        Outcome(order, "failed", one_line(str(errors[order.label]))) for _, order in jobs if errors[order.label]
    ]
    known = {outcome.order.label for outcome in outcomes}
    todo = [job for job in jobs if job[1].label not in known]
    progress = SweepProgress(config.name, len(jobs), done=len(outcomes))
    with progress, closing(executor.run(todo)) as ended:
        for outcome in ended:
            outcomes.append(outcome)
            progress.show(outcome.order.label, outcome.status, outcome.error)
    return outcomes


def _report(config: SweepConfig, folder: Path, outcomes: list[Outcome]) -> Path | None:
    """A page of the cells that have finished; the one that is there, where nothing has changed.

    None if no cell has finished, or MLflow was not reached.
    """
    page = folder / "report" / "index.html"
    if all(outcome.status == "was finished" for outcome in outcomes) and page.exists():
        return page
    if all(outcome.error for outcome in outcomes) or not is_delivered(folder, config.tracking.wait_s):
        return None
    return make_report(config.tracking.uri, config.tracking.experiment, page.parent, mlflow_run_id(folder))
