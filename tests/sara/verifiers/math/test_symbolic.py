"""The workers of symbolic comparison: what they decide, their limits, and that they come back and go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from sara.verifiers import Verdict, verify_math
from sara.verifiers.math.symbolic import Outcome, SymbolicComparison, symbolic_comparison

ENDLESS = r"\int_0^{10} x^{x^{x}} \sin(\cos(\tan x)) e^{x^{x^x}} dx"


@pytest.fixture
def comparison():
    own = SymbolicComparison(wall_limit_s=60)  # on a busy machine too, processor time is what ends a comparison
    yield own
    own.close()


def settled(comparison: SymbolicComparison, gold: str, answer: str) -> Outcome:
    """The outcome once the machine was not too busy for it."""
    outcomes = (comparison.compare(gold, answer) for _ in range(100))
    return next(outcome for outcome in outcomes if outcome is not Outcome.FAILED)


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("4", r"\int_0^2 2x dx", Verdict.RIGHT),
        ("5", r"\int_0^2 2x dx", Verdict.WRONG),
        ("2", r"\sum_{n=0}^{\infty} \frac{1}{2^n}", Verdict.RIGHT),
        ("1", r"\lim_{x \to 0} \frac{\sin x}{x}", Verdict.RIGHT),
        ("-2", r"\det\begin{pmatrix}1&2\\3&4\end{pmatrix}", Verdict.RIGHT),
    ],
)
def test_symbolic_comparison_decides_what_exact_comparison_leaves_open(gold, answer, verdict):
    verdicts = (verify_math(f"\\boxed{{{answer}}}", gold) for _ in range(100))
    assert next(found for found in verdicts if found is not Verdict.UNSCORABLE) is verdict


def test_a_comparison_beyond_its_limits_is_ended_and_the_next_one_works(comparison):
    assert settled(comparison, "7", ENDLESS) is Outcome.EXCEEDED
    assert settled(comparison, "4", r"\int_0^2 2x dx") is Outcome.EQUAL
    assert settled(comparison, r"\frac{", "4") is Outcome.UNREAD
    assert settled(comparison, "4", "5") is Outcome.DIFFERENT


def test_a_worker_that_is_killed_is_replaced(comparison):
    comparison.start()
    for worker in list(comparison.idle):
        os.kill(worker.pid, signal.SIGKILL)
    assert comparison.compare("4", "4") is Outcome.FAILED  # nothing was wrong with the texts
    assert settled(comparison, "4", "4") is Outcome.EQUAL
    comparison.nursery.process.kill()
    comparison.nursery.process.wait()
    for worker in comparison.idle:
        os.kill(worker.pid, signal.SIGKILL)
    assert comparison.compare("4", "4") is Outcome.FAILED
    assert settled(comparison, "4", "4") is Outcome.EQUAL


def test_workers_serve_many_threads_at_once(comparison):
    asked = [(str(n), f"\\int_0^{{{n}}} 1 dx", Outcome.EQUAL) for n in range(1, 9)]
    asked += [(str(n), f"\\int_0^{{{n}}} 2 dx", Outcome.DIFFERENT) for n in range(1, 9)]
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda ask: settled(comparison, *ask[:2]), asked))
    assert outcomes == [expected for _, _, expected in asked]


def test_a_worker_has_a_limit_of_memory(comparison):
    comparison.start()
    (worker,) = comparison.idle
    assert settled(comparison, "4", "4") is Outcome.EQUAL  # it serves, so it has its limits
    limit, _ = psutil.Process(worker.pid).rlimit(psutil.RLIMIT_AS)
    assert limit == 1 << 30


def test_a_forked_child_starts_workers_of_its_own():
    assert settled(symbolic_comparison(), "4", "4") is Outcome.EQUAL
    pid = os.fork()
    if pid == 0:
        os._exit(0 if settled(symbolic_comparison(), "4", "2+2") is Outcome.EQUAL else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert settled(symbolic_comparison(), "4", "2+2") is Outcome.EQUAL


@pytest.mark.parametrize("ending", ["", "; os.kill(os.getpid(), signal.SIGKILL)"], ids=["exits", "is killed"])
def test_no_process_is_left_when_the_program_ends(ending):
    program = (
        "import os, signal, psutil; from sara.verifiers import verify_math; "
        r"print([verify_math('\\boxed{\\int_0^2 2x dx}', '4').value for _ in range(50)][-1], "
        "*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)"
    )
    finished = subprocess.run([sys.executable, "-c", program + ending], capture_output=True, text=True, timeout=120)
    verdict, *pids = finished.stdout.split()
    assert verdict == "right" and len(pids) == 2
    deadline = time.monotonic() + 30
    while any(psutil.pid_exists(int(pid)) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its program"
        time.sleep(0.05)
