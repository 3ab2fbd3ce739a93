from __future__ import annotations

import importlib
import logging
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from sara.engines.base import Request, Sampling
from sara.engines.supervised import EngineFailure, SupervisedEngine, Supervision

SAMPLING = Sampling(1.0, 100)
REQUESTS = [Request((1, 2), seed) for seed in (3, 1, 4)]


@pytest.fixture
def make_engine(tmp_path, monkeypatch):
    """Supervised engines that fail as told; all are closed in the end."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module, made = importlib.import_module("faulty_engine"), []

    def make(*faults, timeout_s: float = 60.0) -> SupervisedEngine:
        lives = tmp_path / f"lives{len(made)}"
        lives.write_text("")
        build = partial(module.build, lives, faults)
        made.append(SupervisedEngine(build, named(7.0), Supervision(timeout_s, start_timeout_s=300)))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def named(weight: float) -> list[tuple[str, torch.Tensor]]:
    return [("weight", torch.tensor([weight]))]


def summary(completions) -> list:
    return [c and (len(c.token_ids), float(c.token_ids[0]), c.policy_version) for c in completions]


def test_a_supervised_engine_does_what_the_engine_does(make_engine):
    engine = make_engine()
    assert summary(engine.generate(REQUESTS, SAMPLING)) == [(3, 7, 0), (1, 7, 0), (4, 7, 0)]
    tickets = engine.submit(REQUESTS, SAMPLING)
    assert engine.advance() and engine.num_in_flight == 2
    assert engine.abort([*tickets, 99]) == {tickets[0]: 1, tickets[2]: 1}
    assert engine.num_in_flight == 0 and engine.advance() == []
    engine.release_memory()
    engine.sync_weights(named(8.0))
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 8, 1)]


@pytest.mark.parametrize(
    ("method", "fault", "reason"),
    [
        ("submit", "die", r"its process ended \(exit code 3\)"),
        ("advance", "die", r"its process ended \(exit code 3\)"),
        ("advance", "hang", r"no answer to advance\(\) within 3 s"),
        ("advance", "freeze", r"no answer to advance\(\) within 3 s"),
        ("advance", "raise", "RuntimeError: the GPU is on fire;"),
    ],
)
def test_after_a_fault_the_rollouts_in_flight_are_missing_and_the_next_ones_are_not(
    make_engine, caplog, method, fault, reason
):
    engine = make_engine({method: fault}, timeout_s=3.0)
    with caplog.at_level(logging.WARNING):
        assert engine.generate(REQUESTS, SAMPLING) == [None] * 3
    (record,) = caplog.records
    assert re.match(f"engine restarted: {reason}.* 3 rollouts are drawn again under policy version 0", record.message)
    assert summary(engine.generate(REQUESTS, SAMPLING)) == [(3, 7, 0), (1, 7, 0), (4, 7, 0)]


def test_a_restarted_engine_has_the_weights_and_the_version_of_the_last_sync(make_engine):
    engine = make_engine()
    engine.sync_weights(named(8.0))
    os.kill(engine.worker_pid, signal.SIGKILL)
    assert engine.generate(REQUESTS, SAMPLING) == [None] * 3
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 8, 1)]


def test_what_had_ended_before_the_fault_is_kept(make_engine):
    engine = make_engine()
    tickets = engine.submit(REQUESTS, SAMPLING)
    assert [ticket for ticket, _ in engine.advance()] == [tickets[1]]
    os.kill(engine.worker_pid, signal.SIGKILL)
    assert sorted(engine.advance()) == [(tickets[0], None), (tickets[2], None)]
    assert engine.num_in_flight == 0


def test_tickets_stay_unique_over_a_restart(make_engine):
    engine = make_engine({"advance": "die"})
    first = engine.submit(REQUESTS, SAMPLING)
    engine.advance()
    assert not set(first) & set(engine.submit(REQUESTS, SAMPLING))


def test_a_second_fault_under_one_policy_ends_it_with_the_reason(make_engine):
    engine = make_engine({"advance": "raise"}, {"advance": "die"})
    engine.generate(REQUESTS, SAMPLING)
    with pytest.raises(EngineFailure, match=r"failed twice under policy version 0; last: its process ended"):
        engine.generate(REQUESTS, SAMPLING)


def test_one_fault_under_each_policy_is_survived(make_engine):
    engine = make_engine({"advance": "raise"}, {"advance": "raise"})
    engine.generate(REQUESTS, SAMPLING)
    engine.sync_weights(named(8.0))
    assert engine.generate(REQUESTS, SAMPLING) == [None] * 3
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 8, 1)]


def test_a_fault_in_a_sync_leaves_a_fresh_engine_with_the_new_weights(make_engine):
    engine = make_engine({"sync_weights": "raise"})
    engine.sync_weights(named(8.0))
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 8, 1)]


def test_a_fault_in_an_abort_loses_all_in_flight_and_returns_none_of_the_aborted(make_engine):
    engine = make_engine({"abort": "die"})
    tickets = engine.submit(REQUESTS, SAMPLING)
    assert engine.abort(tickets[:2]) == {tickets[0]: 0, tickets[1]: 0}
    assert engine.advance() == [(tickets[2], None)]


def test_a_fault_while_memory_is_released_costs_a_restart_and_no_more(make_engine):
    engine = make_engine({"release_memory": "die"})
    engine.release_memory()
    engine.sync_weights(named(8.0))
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 8, 1)]


def test_an_engine_that_cannot_be_restarted_says_both_reasons(make_engine):
    engine = make_engine({"advance": "die"}, {"build": "refuse"})
    with pytest.raises(EngineFailure, match=r"exit code 3\).* could not be restarted: no such thing"):
        engine.generate(REQUESTS, SAMPLING)


def test_a_mistake_in_the_call_is_the_callers_and_no_fault_of_the_engine(make_engine):
    engine = make_engine({"submit": "refuse"})
    before = engine.worker_pid
    with pytest.raises(ValueError, match=r"^no such thing$"):
        engine.generate(REQUESTS, SAMPLING)
    assert engine.num_in_flight == 0 and engine.worker_pid == before
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 7, 0)]


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("refuse", ValueError, "^no such thing$"),
        ("raise", EngineFailure, "did not start: RuntimeError: the GPU is on fire$"),
        ("die", EngineFailure, r"did not start: its process ended \(exit code 3\)"),
    ],
)
def test_an_engine_that_does_not_start_says_why(make_engine, fault, kind, message):
    with pytest.raises(kind, match=message):
        make_engine({"build": fault})


def blocks_of_weights() -> int:
    """How many blocks of shared weights this process holds, however often each is open."""
    links = [path for path in Path("/proc/self/fd").iterdir() if "sara-weights" in os.path.realpath(path)]
    return len({path.stat().st_ino for path in links})


def test_an_engine_that_does_not_start_leaves_no_memory_behind(make_engine):
    before = blocks_of_weights()
    engine = make_engine()
    assert blocks_of_weights() == before + 1
    for fault, kind in (("refuse", ValueError), ("die", EngineFailure)):
        with pytest.raises(kind):
            make_engine({"build": fault})
    unreadable = (("weight", torch.ones(1) if n else None) for n in (1, 0))
    with pytest.raises(AttributeError):
        SupervisedEngine(None, unreadable, Supervision(60.0, start_timeout_s=300))
    assert blocks_of_weights() == before + 1
    engine.close()
    assert blocks_of_weights() == before


def test_a_frozen_worker_is_noticed_even_by_a_message_larger_than_the_pipe(make_engine):
    engine = make_engine(timeout_s=3.0)
    os.kill(engine.worker_pid, signal.SIGSTOP)
    many = [Request(tuple(range(200)), 1)] * 5000
    assert engine.generate(many, SAMPLING) == [None] * 5000
    assert summary(engine.generate(REQUESTS[:1], SAMPLING)) == [(3, 7, 0)]


def test_a_worker_ends_with_its_engine(make_engine):
    engine = make_engine()
    pid = engine.worker_pid
    engine.close()
    assert not is_running(pid)
    engine.close()  # the second time, and that of an engine that has died, is no error


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_worker_does_not_outlive_a_parent_that_is_killed(tmp_path):
    """A parent that starts a worker, makes it hang and is killed, as a scheduler does it."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from sara.engines.worker import Worker\n"
        "worker = Worker({}, 60)\n"
        "print(worker.pid, flush=True)\n"
        "worker.build(time.sleep, 600, timeout_s=600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    for _ in range(100):
        if not is_running(pid):
            break
        time.sleep(0.1)
    assert not is_running(pid)
