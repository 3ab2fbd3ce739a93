"""The worker's side: builds an engine and answers calls of its methods, one after another, until nobody asks.

Speaks with `sara.engines.worker.Worker` alone, over an inherited socket. Imports no engine: the builder that comes
first over the socket brings its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

_SECONDS_BETWEEN_LOOKS = 1.0


class Answer(NamedTuple):
    """What a call came to: its value; or a message, of a mistake in what was asked, or of a failure of the engine."""

    kind: Literal["value", "mistake", "failure"]
    value: Any


def serve(connection: Connection) -> None:
    """Answer until the other side closes."""
    target: Any = None
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            break
        if method == "build":
            build, *arguments = arguments
            answer, target = _answer_of_build(build, arguments)
        else:
            answer = _answer(getattr(target, method), arguments)
        connection.send(answer)
    if target is not None:
        target.close()


def _answer_of_build(build: Callable, arguments: list) -> tuple[Answer, Any]:
    answer = _answer(build, arguments)
    return (Answer("value", None), answer.value) if answer.kind == "value" else (answer, None)


def _answer(call: Callable, arguments: tuple | list) -> Answer:
    try:
        return Answer("value", call(*arguments))
    except ValueError as error:
        return Answer("mistake", str(error))
    except Exception as error:  # noqa: BLE001 - whatever an engine dies of, its keeper must hear it
        first_line = next(iter(str(error).strip().splitlines()), "")
        return Answer("failure", f"{type(error).__name__}: {first_line}")


def _end_with(parent: int) -> None:
    """A worker that is busy, or that an engine blocks, does not outlive the process it works for."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(descriptor: int, parent: int) -> None:
    """Serve over the inherited socket while the parent, a process id, lives: the whole of a worker's program."""
    _end_with(parent)
    serve(Connection(descriptor))
    os._exit(0)  # libraries that tidy up at exit can take long, or for ever
