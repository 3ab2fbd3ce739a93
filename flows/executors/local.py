"""Cells one after another in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.cell import run_cell
from flows.executors.base import Job, Outcome, SweepStopped, outcome_of
from sara.sweeps import Execution


class Local:
    """Each cell is a subflow, called in the main thread so that a signal reaches the training itself."""

    def __init__(self, execution: Execution) -> None:
        pass

    def check(self) -> None:
        """This process is always there."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        for config, order in jobs:
            state = run_cell(config, order, return_state=True)
            if state.is_cancelled():  # the signal was meant for the sweep
                raise SweepStopped(f"{order.label}: {state.message or 'cancelled'}")
            yield outcome_of(order, state)
