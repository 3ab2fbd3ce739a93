"""A run that was told to stop ends as Cancelled in Prefect, not as failed or crashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from prefect.states import Cancelled

from tasks.stopping import Stopped

when_stopped: ContextVar[Callable[[Stopped], None] | None] = ContextVar("when_stopped", default=None)
"""Called once everything is saved and only Prefect has still to be told."""


@dataclass
class Cancellation:
    """The state to return from a flow that was told to stop."""

    state: Any = None


@contextmanager
def cancelled_in_prefect() -> Iterator[Cancellation]:
    """The body of a flow; ends quietly if it was told to stop, with the state that says so."""
    cancellation = Cancellation()
    try:
        yield cancellation
    except Stopped as stop:
        callback = when_stopped.get()
        if callback is not None:
            callback(stop)
        cancellation.state = Cancelled(message=str(stop))
