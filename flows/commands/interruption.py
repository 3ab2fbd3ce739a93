"""What the command line says of a run that was told to stop or that failed, and how long it takes to leave."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flows.environment import check_prefect
from sara.failures import RunFailure

LEAVE_S = 10.0
"""Longest that a stopped run waits for Prefect to take its state."""
_EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}


@contextmanager
def says_how_to_go_on(command: str) -> Iterator[None]:
    """Around a flow: told to stop, it ends in one line on stderr and the exit code of its signal.

    A failure of the run, and a Prefect server that went away, are one line too; for any other failure but a mistake
    of the user's, the line comes before the error. Raises ValueError if a Prefect server is set that does not answer.
    """
    import httpx
    from prefect.exceptions import CancelledRun, TerminationSignal

    from tasks.cancelling import when_stopped

    check_prefect()
    start_temporary_server()
    go_on = f"go on with: {_resume(command)}"
    when_stopped.set(lambda stop: _leave_soon(f"{stop}; {go_on}"))
    try:
        yield
    except (CancelledRun, TerminationSignal, KeyboardInterrupt) as stop:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # who presses Ctrl-C again shall still see the line
        reason = str(stop) if isinstance(stop, CancelledRun) else "stopped"
        _say(f"{reason}; {go_on}")
        sys.exit(_exit_code(reason))
    except httpx.HTTPError as error:
        _say(f"the Prefect server does not answer ({error}); nothing recorded is lost; {go_on}")
        sys.exit(1)
    except RunFailure as failure:
        _say(f"{failure}; {go_on}")
        sys.exit(1)
    except ValueError:
        raise
    except Exception:
        _say(f"failed, as said below; {go_on}")
        raise


def start_temporary_server() -> None:
    """Without a Prefect server set, start Prefect's temporary one so that Ctrl-C, which goes to every process of the
    terminal, does not end it before the run has told it how it ended."""
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import get_current_settings

    if get_current_settings().api.url is not None:
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # which a child inherits
    try:
        SubprocessASGIServer().start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _leave_soon(line: str) -> None:
    def leave() -> None:
        _say(f"{line} (Prefect could not be told)")
        os._exit(_exit_code(line))

    timer = threading.Timer(LEAVE_S, leave)
    timer.daemon = True
    timer.start()


def _exit_code(reason: str) -> int:
    return next((code for name, code in _EXIT_CODES.items() if name in reason), 130)


def _say(line: str) -> None:
    print(f"sara: {line}", file=sys.stderr, flush=True)


def _resume(command: str) -> str:
    arguments = sys.argv[sys.argv.index(command) + 1 :] if command in sys.argv else []
    return shlex.join(["sara", command, "--resume", *(said for said in arguments if said != "--resume")])
