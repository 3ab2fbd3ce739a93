"""SIGTERM and SIGINT: where a run may be interrupted at once, and where it first finishes what it is doing.

Owns the two signals while a flow runs. Never decides what is saved: that is `tasks.train`'s.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

GRACE_S = 15.0
"""Longest that a signal waits for a weight update or a checkpoint to be finished."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """A signal told the run to stop. Not an Exception: nothing that goes wrong may swallow it.

    is_torn   it struck where state is half changed: what is in memory must not be saved
    """

    def __init__(self, by: str, is_torn: bool = False) -> None:
        super().__init__(f"stopped by {by}")
        self.by, self.is_torn = by, is_torn

    def after(self, step: int, folder: Path) -> Stopped:
        """The same, saying from where the run can go on."""
        told = Stopped(self.by, self.is_torn)
        saved = f"step {step} is saved in {folder}" if step else f"no step is saved yet in {folder}"
        told.args = (f"{self}; {saved}",)
        return told


class StopSwitch:
    """Catches both signals for as long as it is entered; in any thread but the main one, it does nothing.

    A signal raises Stopped at once inside `interruptible`, and elsewhere at the next `check` or the end; if there is
    none within GRACE_S seconds, or a second signal comes, it raises Stopped with `is_torn`, wherever that is.
    """

    def __init__(self) -> None:
        self._received: str | None = None
        self._is_told = False
        self._may_stop: Callable[[], bool] | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopSwitch:
        if threading.current_thread() is threading.main_thread():
            handlers = dict.fromkeys(_SIGNALS, self._receive) | {signal.SIGALRM: self._is_overdue}
            self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._received is not None and not self._is_told:
            raise Stopped(self._received)

    @contextmanager
    def interruptible(self, may_stop: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Inside, a signal raises at once whenever `may_stop()`."""
        self.check()
        self._may_stop = may_stop
        try:
            yield
        finally:
            self._may_stop = None

    def check(self) -> None:
        """Raise Stopped if a signal has come."""
        if self._received is not None and not self._is_told:
            self._tell()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        is_repeated, self._received = self._received is not None, signal.Signals(number).name
        if self._may_stop is not None and self._may_stop():
            self._tell()
        if is_repeated:
            self._is_overdue(number, frame)
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def _is_overdue(self, number: int, frame: FrameType | None) -> None:
        self._tell(is_torn=True)

    def _tell(self, is_torn: bool = False) -> NoReturn:
        self._may_stop, self._is_told = None, True
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Stopped(self._received, is_torn)
