"""What every executor of a sweep is: it runs cells somewhere and says how each ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from prefect.states import State

from sara.config import RunConfig
from sara.sweeps import Execution
from tasks.cells import CellOrder

Status = Literal["finished", "was finished", "failed", "cancelled"]
Job = tuple[RunConfig, CellOrder]


class SweepStopped(BaseException):
    """The process of the sweep was told to stop while it ran a cell itself; the cell has saved what it had."""


class Outcome(NamedTuple):
    """How a cell ended; `error` is one line, empty for a cell that finished."""

    order: CellOrder
    status: Status
    error: str = ""


class Executor(Protocol):
    """Runs cells. One object serves one sweep."""

    def __init__(self, execution: Execution) -> None: ...

    def check(self) -> None:
        """Raises ValueError if cells cannot be run: no server, no such pool, no cluster. Called before any work."""
        ...

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Run every cell and give each as it ends; one that fails does not stop the others.

        Closing the iterator, or an exception in it, ends the cells that still run.
        """
        ...


def outcome_of(order: CellOrder, state: State | None) -> Outcome:
    """How a cell ended, from the final state of its flow or task run."""
    if state is not None and state.is_completed():
        return Outcome(order, "finished")
    if state is not None and state.is_cancelled():
        return Outcome(order, "cancelled", "cancelled")
    return Outcome(order, "failed", one_line((state.message if state else None) or "it ended without a state"))


def one_line(text: str) -> str:
    """Prefect's message without its preamble, in one line."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"^(Flow|Task) run encountered an exception:? ", "", text)[:500]
