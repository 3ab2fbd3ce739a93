"""The process that compares answers by symbolic algebra; run as a script by `symbolic`, never imported by it.

It imports math-verify once and then forks a fresh worker whenever it is asked for one, so a worker that was killed is
replaced in milliseconds. Workers have a limit of memory, and for each comparison one of processor time and one of
wall-clock time that the kernel enforces by a deadly signal, whatever the library is doing.

Standard library and math-verify only. The parent's end of each socket is its life line: when it closes, all end.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import socket
import sys
import time

CPU_LIMIT_S = 0.3
"""Ends a comparison by SIGPROF: the answer is to blame."""
WALL_LIMIT_S = 0.6
"""Ends a comparison by SIGALRM: the machine gave it too little processor time, unless it had most of its share."""
MEMORY_LIMIT_BYTES = 1 << 30
MAX_MESSAGE_BYTES = 1 << 16

WARM_UP = [
    ("x+1", "1+x"),
    (r"\frac{\pi^2}{6}", r"\sum_{n=1}^{\infty} \frac{1}{n^2}"),
    (r"\ln 2", r"\sum_{n=1}^{\infty} \frac{(-1)^{n+1}}{n}"),
    ("1", r"\int_0^1 2x dx"),
    (r"\sqrt{\pi}", r"\int_{-\infty}^{\infty} e^{-x^2} dx"),
    ("1", r"\lim_{x \to 0} \frac{\sin x}{x}"),
]
"""The first comparison of its kind takes several times as long as the next ones: these are it."""

FORK, REAP = b"F", b"R"
"""What the parent asks: a new worker on the socket that comes along; the end of the worker named by its process id."""


def main(control: socket.socket) -> None:
    """Serve the parent until it closes its end."""
    import math_verify

    logging.disable(logging.CRITICAL)
    for gold, answer in WARM_UP:  # builds the tables of the grammar and imports what is imported late
        compare(math_verify, gold, answer)
    control.sendall(b"ready\n")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        if not message:
            return
        if message[:1] == FORK:
            control.sendall(b"%d\n" % fork_worker(control, socket.socket(fileno=descriptors[0]), math_verify))
        else:
            reap(int(message[1:]))
            control.sendall(b"reaped\n")


def fork_worker(control: socket.socket, connection: socket.socket, math_verify) -> int:
    """Process id of a new worker that serves a connection."""
    pid = os.fork()
    if pid:
        connection.close()
        return pid
    status = 1
    try:
        control.close()
        limit_itself()
        serve(connection, math_verify)
        status = 0
    finally:
        os._exit(status)


def reap(pid: int) -> None:
    """End a worker if it still lives."""
    with contextlib.suppress(ChildProcessError):
        if not os.waitpid(pid, os.WNOHANG)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def limit_itself() -> None:
    for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC))


def serve(connection: socket.socket, math_verify) -> None:
    """Answer one request at a time: processor time so far, `gold` once the gold is read, then the outcome."""
    requests = connection.makefile("r", encoding="utf-8")
    for line in requests:
        gold, answer, wall_limit_s = json.loads(line)
        connection.sendall(b"%f\n" % time.process_time())
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
        signal.setitimer(signal.ITIMER_REAL, wall_limit_s)
        try:
            outcome = compare(math_verify, gold, answer, lambda: connection.sendall(b"gold\n"))
        except (MemoryError, RecursionError):
            return  # what is left of the process is not trusted
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        connection.sendall(outcome.encode() + b"\n")


def compare(math_verify, gold: str, answer: str | None, on_gold_read=lambda: None) -> str:
    """`equal`, `different`, or `unread` where the gold is not understood; an answer of None only reads the gold."""
    read_gold = read(math_verify, gold)
    if not read_gold:
        return "unread"
    on_gold_read()
    read_answer = read(math_verify, answer) if answer is not None else None
    if not read_answer:
        return "different"
    left, right = computed(read_gold[0]), computed(read_answer[0])
    if left == right or (is_rational(left) and is_rational(right)):
        return "equal" if left == right else "different"
    is_equal = math_verify.verify(
        read_gold, read_answer, float_rounding=30, numeric_precision=60, strict=True, timeout_seconds=None
    )
    return "equal" if is_equal else "different"


def computed(expression):
    """The expression with its sums, integrals and limits carried out; text as it is."""
    return expression.doit() if hasattr(expression, "doit") else expression


def is_rational(expression) -> bool:
    return getattr(expression, "is_Rational", False)


def read(math_verify, text: str) -> list:
    """What math-verify reads in one formula of LaTeX; empty if nothing."""
    config = [math_verify.LatexExtractionConfig()]
    return math_verify.parse(
        f"${text}$", config, fallback_mode="no_fallback", extraction_mode="first_match", parsing_timeout=None
    )


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
