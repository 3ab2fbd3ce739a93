"""A run that was told to stop ends as Cancelled in Prefect, not as failed or crashed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import CancelledRun
from prefect.states import Cancelled

from tasks.stopping import Stopped


@dataclass
class Cancellation:
    """The state to return from a flow or task that was told to stop."""

    state: Any = None


@contextmanager
def cancelled_in_prefect() -> Iterator[Cancellation]:
    """Ends quietly if the body was told to stop, with the state that says so; outside Prefect, Stopped goes on."""
    cancellation = Cancellation()
    try:
        yield cancellation
    except (Stopped, CancelledRun) as stop:
        if TaskRunContext.get() is None and FlowRunContext.get() is None:
            raise
        cancellation.state = Cancelled(message=str(stop))
