"""What the command line says of a run that was told to stop, and how long it takes to leave."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}


@contextmanager
def says_how_to_go_on(command: str) -> Iterator[None]:
    """A run that is told to stop ends in one line on stderr, and with the exit code of its signal."""
    from prefect.exceptions import CancelledRun, TerminationSignal

    from tasks.stopping import Stopped

    try:
        yield
    except (CancelledRun, Stopped, TerminationSignal, KeyboardInterrupt) as stop:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses Ctrl-C again shall still see the line
        reason = str(stop) if isinstance(stop, (CancelledRun, Stopped)) else "stopped"
        print(f"sara: {reason}; go on with: {_resume(command)}", file=sys.stderr, flush=True)
        sys.exit(next((code for name, code in _EXIT_CODES.items() if name in reason), 130))


def _resume(command: str) -> str:
    arguments = sys.argv[sys.argv.index(command) + 1 :] if command in sys.argv else sys.argv[1:]
    said = [argument for argument in arguments if argument != "--resume"]
    return shlex.join(["sara", command, "--resume", *said])
