"""Compares answers by symbolic algebra in other processes, for the few that exact comparison leaves open.

Owns the workers: started at the first use, one for each comparison at a time, killed beyond their limits, replaced,
gone with this process. Safe from any thread, and after a fork (the child starts its own).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sara.verifiers.math.worker import CPU_LIMIT_S, FORK, REAP, WALL_LIMIT_S

WORKERS = 4
"""At most so many comparisons run at once, as many as a run has threads that score; others wait for their turn."""
JOBS_PER_WORKER = 500
"""A worker is replaced after so many comparisons: the library's caches only grow."""
START_LIMIT_S = 120
LEAST_CPU_S = CPU_LIMIT_S / 3
"""A comparison that ran out of time with less processor time than this is no fault of its answer."""
BACKSTOP_S = 0.15
"""A worker that neither answered nor died so long after its time was over is waited for no longer."""

_logger = logging.getLogger(__name__)


class Outcome(Enum):
    """What a symbolic comparison came to."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNREAD = "unread"
    """The gold is not understood."""
    GOLD_EXCEEDED = "gold exceeded"
    """Reading the gold went beyond the limits."""
    EXCEEDED = "exceeded"
    """Reading or comparing the answer went beyond the limits of time or memory."""
    FAILED = "failed"
    """No verdict for reasons outside the texts: no worker could be started, or the machine was too busy."""


_OUTCOMES = frozenset({"equal", "different", "unread"})


class _Broken(OSError):
    """The process that makes workers is gone."""


@dataclass
class _Worker:
    connection: socket.socket
    pid: int
    jobs: int = 0


class _Nursery:
    """The process that imports the library and forks workers, and the line to it."""

    def __init__(self):
        self.line, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("worker.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is for the trainer, not for its workers
            )
        self.line.settimeout(START_LIMIT_S)
        self.lock = threading.Lock()
        self.is_ready = False

    def fork_worker(self) -> _Worker:
        """A new worker; raises _Broken."""
        ours, theirs = socket.socketpair()
        with self.lock, theirs:
            try:
                if not self.is_ready and self._reply() != "ready":
                    raise ValueError("it ended while it started")
                self.is_ready = True
                socket.send_fds(self.line, [FORK], [theirs.fileno()])
                pid = int(self._reply())
            except (OSError, ValueError) as error:
                ours.close()
                raise _Broken("no worker for symbolic comparison") from error
        return _Worker(ours, pid)

    def reap(self, worker: _Worker) -> None:
        """End a worker; raises _Broken."""
        worker.connection.close()
        with self.lock:
            try:
                self.line.sendall(REAP + b"%d" % worker.pid)
                if self._reply() != "reaped":
                    raise ValueError("it ended")
            except (OSError, ValueError) as error:
                raise _Broken("the process for symbolic comparison is gone") from error

    def _reply(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            part = self.line.recv(64)
            if not part:
                break
            text += part
        return text.decode().strip()

    def close(self) -> None:
        """End the process; its workers end when their connections close."""
        self.line.close()
        if not self.is_ready:
            self.process.kill()  # it imports the library and would notice late
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class SymbolicComparison:
    """Workers for one process; wall_limit_s is what a comparison may take by the clock, the gold alone half of it."""

    wall_limit_s: float = WALL_LIMIT_S

    nursery: _Nursery | None = None
    idle: list[_Worker] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(WORKERS))

    def compare(self, gold: str, answer: str | None) -> Outcome:
        """Compare two answers in LaTeX; an answer of None only asks whether the gold is understood."""
        with self.turns:
            try:
                return self._compare(gold, answer)
            except OSError as error:
                _logger.warning("symbolic comparison failed: %s", error)
                self.close()
                return Outcome.FAILED

    def prepare(self) -> None:
        """Begin to start, without waiting, what the first use would have to wait for."""
        with self.lock, contextlib.suppress(OSError):
            if self.nursery is None:
                self.nursery = _Nursery()

    def start(self) -> None:
        """Start a worker now rather than at the first use; raises OSError if there can be none."""
        worker = self._take()
        with self.lock:
            self.idle.append(worker)

    def close(self) -> None:
        """End all workers; the next use starts new ones."""
        with self.lock:
            workers, nursery = self.idle, self.nursery
            self.idle, self.nursery = [], None
        for worker in workers:
            worker.connection.close()
        if nursery is not None:
            nursery.close()

    def _take(self) -> _Worker:
        with self.lock:
            if self.idle:
                return self.idle.pop()
            if self.nursery is None:
                self.nursery = _Nursery()
            nursery = self.nursery
        return nursery.fork_worker()

    def _compare(self, gold: str, answer: str | None) -> Outcome:
        worker = self._take()
        lines, is_alive = _ask(worker, gold, answer, self.wall_limit_s / (2 if answer is None else 1))
        worker.jobs += 1
        cpu_s = None if is_alive else _processor_time(worker.pid)
        with self.lock:
            nursery = self.nursery
            if is_alive and worker.jobs < JOBS_PER_WORKER and nursery is not None:
                self.idle.append(worker)
                return Outcome(lines[-1])
        if nursery is not None:  # nobody waits for the end of the one and the start of the other
            threading.Thread(target=self._replace, args=(worker, nursery), daemon=True).start()
        if is_alive:
            return Outcome(lines[-1])
        if not lines or cpu_s is None or cpu_s - float(lines[0]) < LEAST_CPU_S:
            return Outcome.FAILED
        return Outcome.EXCEEDED if "gold" in lines else Outcome.GOLD_EXCEEDED

    def _replace(self, worker: _Worker, nursery: _Nursery) -> None:
        """End a worker that is done for, and have another one ready in its place."""
        try:
            nursery.reap(worker)
            spare = nursery.fork_worker()
        except OSError as error:
            _logger.warning("symbolic comparison: %s", error)
            return
        with self.lock:
            if self.nursery is nursery:
                self.idle.append(spare)
                return
        spare.connection.close()


def _ask(worker: _Worker, gold: str, answer: str | None, wall_limit_s: float) -> tuple[list[str], bool]:
    """Lines that the worker said, and whether the last one is an outcome."""
    said = b""
    end = time.monotonic() + wall_limit_s + BACKSTOP_S
    try:
        worker.connection.settimeout(wall_limit_s + BACKSTOP_S)
        worker.connection.sendall(json.dumps([gold, answer, wall_limit_s]).encode() + b"\n")
        while True:
            worker.connection.settimeout(max(end - time.monotonic(), 0.001))
            part = worker.connection.recv(256)
            if not part:
                return said.decode().split(), False
            said += part
            if said.endswith(b"\n") and said.split()[-1].decode() in _OUTCOMES:
                return said.decode().split(), True
    except OSError:
        return said.decode().split(), False


def _processor_time(pid: int) -> float | None:
    """Seconds of processor time of a worker, also of one that has ended but was not reaped; None if not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_comparison = SymbolicComparison()


def symbolic_comparison() -> SymbolicComparison:
    """The workers of this process."""
    return _comparison


def _forget_after_fork() -> None:
    """In a forked child: leave the parent's workers to it, and start anew at the first use."""
    global _comparison
    inherited, _comparison = _comparison, SymbolicComparison()
    for worker in inherited.idle:
        worker.connection.close()
    if inherited.nursery is not None:
        inherited.nursery.line.close()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _comparison.close())
