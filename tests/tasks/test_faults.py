"""Processes that die while a run trains: the run goes on, and what they had under way is missing, never a failure."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from itertools import count
from pathlib import Path

import pytest

from sara.datasets import countdown
from sara.engines import is_vllm_installed
from sara.engines.supervised import EngineFailure, SupervisedEngine, Supervision
from sara.engines.worker import Worker
from sara.learner import Learner
from sara.reporting.metrics_file import read_metrics
from sara.verifiers import Verdict, verify_countdown
from sara.verifiers.math.symbolic import Outcome, SymbolicComparison
from tasks.prepare import PreparedData, prepare_data
from tasks.stopping import Stopped
from tasks.train import TrainedRun, train
from tests.tasks.small_runs import STEPS, make_config, outcome, strike

FATES = ("effective", "abandoned", "audited", "saturated", "surplus", "unfinished", "aborted", "missing")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> PreparedData:
    folder = tmp_path_factory.mktemp("data")
    return prepare_data.fn(make_config(folder), folder / "data")


def require_whole(trained: TrainedRun) -> None:
    """Every step was taken once, with three full groups, and every rollout has one fate."""
    metrics = read_metrics(trained.folder / "metrics.jsonl")
    assert metrics["groups/trained"].steps == tuple(range(1, STEPS + 1))
    assert set(metrics["rollouts/trained"].values) == {12.0}
    for at, generated in enumerate(metrics["rollouts/generated"].values):
        assert sum(metrics[f"rollouts/{fate}"].values[at] for fate in FATES) == generated


@pytest.fixture
def engine_apart(monkeypatch) -> None:
    """Runs of this test sample in a worker process, as with vLLM."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    build = importlib.import_module("engine_apart").build

    def make_engine(config, policy) -> SupervisedEngine:
        weights = policy.model.state_dict().items()
        return SupervisedEngine(build, weights, Supervision(timeout_s=120, start_timeout_s=300))

    monkeypatch.setattr("sara.training.make_engine", make_engine)


def kill_engine(monkeypatch, times: int) -> None:
    """With SIGKILL in the second step, as it is asked for tokens; as often as told."""
    advance, kills = SupervisedEngine.advance, iter(range(times))

    def struck(self):
        if self.policy_version == 1 and self.num_in_flight and next(kills, None) is not None:
            os.kill(self.worker_pid, signal.SIGKILL)
        return advance(self)

    monkeypatch.setattr(SupervisedEngine, "advance", struck)


def test_an_engine_that_dies_costs_the_rollouts_in_flight_and_no_step(
    engine_apart, data, tmp_path, monkeypatch, caplog
):
    kill_engine(monkeypatch, times=1)
    trained = train.fn(make_config(tmp_path), data)
    require_whole(trained)
    assert "engine restarted" in caplog.text
    assert sum(read_metrics(trained.folder / "metrics.jsonl")["rollouts/missing"].values) > 0


def sigterm_soon() -> None:
    """In the middle of what is about to begin."""
    main = threading.main_thread().ident
    threading.Timer(0.005, lambda: signal.pthread_kill(main, signal.SIGTERM)).start()


def test_a_run_whose_engine_failed_for_good_or_was_stopped_in_mid_answer_goes_on_bit_for_bit(
    engine_apart, data, tmp_path, monkeypatch
):
    alone = outcome(train.fn(make_config(tmp_path / "alone"), data))
    config = make_config(tmp_path / "struck")
    with monkeypatch.context() as patched:
        kill_engine(patched, times=2)
        with pytest.raises(EngineFailure, match="the engine failed twice under policy version"):
            train.fn(config, data)
    with monkeypatch.context() as patched:
        strike(patched, Worker, "call", 30, sigterm_soon)
        with pytest.raises(Stopped, match="step 1 is saved"):
            train.fn(config, data, resume=True)
    trained = train.fn(config, data, resume=True)
    assert (trained.resumed_at, outcome(trained)) == (1, alone)


@pytest.mark.services
@pytest.mark.skipif(not is_vllm_installed(), reason="vLLM is not installed; `make test-services` sets it up")
def test_a_run_on_vllm_goes_on_bit_for_bit(data, tmp_path, monkeypatch):
    on_vllm = {"engine": {"name": "vllm", "max_new_tokens": 48, "cache_gib": 0.25}}
    alone = outcome(train.fn(make_config(tmp_path / "alone", **on_vllm), data))
    config = make_config(tmp_path / "stopped", **on_vllm)
    with monkeypatch.context() as patched:
        strike(patched, Learner, "update", 2, lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(Stopped, match="step 2 is saved"):
            train.fn(config, data)
    trained = train.fn(config, data, resume=True)
    assert (trained.resumed_at, outcome(trained)) == (2, alone)


def test_workers_of_a_verifier_that_are_killed_cost_verdicts_and_no_step(data, tmp_path, monkeypatch):
    """Problems of Countdown whose verdict waits for a real symbolic comparison, whose processes die at the 30th."""
    comparison, calls = SymbolicComparison(wall_limit_s=60), count(1)
    comparison.start()

    def verify(response: str, numbers: tuple[int, ...], target: int) -> Verdict:
        if next(calls) == 30:
            comparison.nursery.process.kill()
            for worker in list(comparison.idle):
                os.kill(worker.pid, signal.SIGKILL)
        is_equal = comparison.compare("x^2 - 1", "(x - 1)(x + 1)") is Outcome.EQUAL
        return verify_countdown(response, numbers, target) if is_equal else Verdict.UNSCORABLE

    monkeypatch.setattr(countdown, "_verify", verify)
    try:
        trained = train.fn(make_config(tmp_path), data)
    finally:
        comparison.close()
    require_whole(trained)
    assert 0 < sum(read_metrics(trained.folder / "metrics.jsonl")["rollouts/missing"].values) <= 30
