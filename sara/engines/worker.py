"""A worker: a process of its own in which an engine lives, because only a process can be killed once it hangs.

Owns starting it, waiting no longer than agreed for an answer, and its end. Knows nothing of rollouts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from typing import Any

_SECONDS_TO_END = 10


class WorkerFailure(RuntimeError):
    """The worker died, did not answer in time, or reported that its engine failed."""


class Worker:
    """A process that builds something and answers calls of its methods.

    environment   variables set in the process before anything is imported there
    timeout_s     longest wait for an answer, in seconds
    """

    def __init__(self, environment: Mapping[str, str], timeout_s: float):
        self.timeout_s = timeout_s
        self._log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - outlives this
        self._connection, theirs = Pipe()
        _limit_waits(self._connection, timeout_s)
        program = f"from sara.engines.serving import main; main({theirs.fileno()}, parent={os.getpid()})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is the parent's to handle; and the whole group can be killed
            )
        self._end = weakref.finalize(self, _kill, self._process, self._connection)

    @property
    def pid(self) -> int:
        return self._process.pid

    def build(self, build: Callable, *arguments: Any, timeout_s: float) -> None:
        """Build, in the worker, what later calls are for. Raises ValueError and WorkerFailure as `call` does."""
        self.call("build", build, *arguments, timeout_s=timeout_s)

    def call(self, method: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """What the method returned there.

        Raises ValueError if it did, and WorkerFailure, after which the worker is of no use, for everything else.
        """
        limit = self.timeout_s if timeout_s is None else timeout_s
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(limit):
                raise WorkerFailure(f"no answer to {method}() within {limit:g} s")
            kind, value = self._connection.recv()
        except BlockingIOError as error:
            raise WorkerFailure(f"it stopped in the middle of a message for {self.timeout_s:g} s") from error
        except (EOFError, OSError) as error:
            raise WorkerFailure(self._obituary()) from error
        if kind == "mistake":
            raise ValueError(value)
        if kind == "failure":
            raise WorkerFailure(value)
        return value

    def close(self) -> None:
        """Let the worker end by itself, and kill it if it does not."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        self.kill()

    def kill(self) -> None:
        """End the process and every process it started."""
        self._end()
        self._log.close()

    def _obituary(self) -> str:
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._log.seek(0)
        last = next((line.strip() for line in reversed(self._log.read().splitlines()) if line.strip()), "")
        return f"its process ended ({how})" + (f": {last}" if last else "")


def _limit_waits(connection: Connection, timeout_s: float) -> None:
    """A message that a stopped worker takes or gives only half of must not block for ever."""
    limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))  # struct timeval
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _kill(process: subprocess.Popen, connection: Connection) -> None:
    connection.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
