"""The paper's tables: each is a sweep; one flow runs them all and goes on where it was."""

from __future__ import annotations

from prefect import flow
from prefect.states import Completed, Failed, State
from pydantic import BaseModel

from flows.environment import default_tracking
from flows.naming import tag_run
from flows.sweep import SweepResult, sweep
from sara.experiments import EXPERIMENTS, ReproduceConfig


class Table(BaseModel):
    """One of the paper's tables: its sweep's result, or the one line that says why there is none."""

    name: str
    title: str
    result: SweepResult | None = None
    error: str = ""


class ReproduceResult(BaseModel):
    """What became of every table."""

    tables: list[Table]


@flow(name="reproduce", flow_run_name="reproduce {config.scale}")
def reproduce(config: ReproduceConfig) -> State[ReproduceResult]:
    """Make the paper's tables and ablations: all strategies on MATH and Countdown, then k, tau_low, prior, algorithm.

    Each table is a sweep of its own and is reported by itself; cells that finished before are not run again.
    The run ends as Failed if a table or one of its cells failed, after all the others.
    """
    sweeps = config.sweeps()
    tag_run("reproduce", f"scale:{config.scale}", f"executor:{config.executor}")
    tables = []
    for name, settings in sweeps.items():
        state = sweep(default_tracking(settings), return_state=True)
        if state.is_cancelled():
            return state
        found = state.result(raise_on_failure=False)
        is_result = isinstance(found, SweepResult)
        failed = [cell for cell in found.cells if cell.error] if is_result else []
        error = f"{len(failed)} cells did not finish" if failed else "" if is_result else str(found)
        result = found if is_result else None
        tables.append(Table(name=name, title=EXPERIMENTS[name].title, result=result, error=error))
    result = ReproduceResult(tables=tables)
    broken = [f"{table.name}: {table.error}" for table in tables if table.error]
    return Failed(message="; ".join(broken), data=result) if broken else Completed(data=result)
