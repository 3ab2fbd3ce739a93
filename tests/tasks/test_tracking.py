"""What runs record reaches MLflow once, whatever is killed or does not answer in between."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from sara.config import TrackingConfig
from sara.reporting import Comparison, Series
from sara.reporting.metrics_file import read_metrics
from tasks import delivery
from tasks.comparisons import histories
from tasks.outbox import Outbox
from tasks.tracking import (
    Run,
    TrackingError,
    connect,
    flatten,
    hold_run,
    load_comparison,
    mlflow_run_id,
    open_run,
    reopen_run,
)
from tests.sara.reporting import synthetic


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/deep/mlflow.db"


@pytest.fixture(scope="module")
def tracking(uri) -> TrackingConfig:
    return TrackingConfig(uri=uri, experiment="tests")


@pytest.fixture(scope="module")
def client(uri):
    return connect(uri, "tests").client


@pytest.fixture
def at_the_end(monkeypatch):
    """Nothing is delivered until a run closes."""
    monkeypatch.setattr(delivery.BackgroundDelivery, "_run", _run_once_closing(delivery.BackgroundDelivery._run))


def _run_once_closing(run):
    def wait_and_run(self) -> None:
        while not self._is_closing:
            self._wake.wait(0.05)
        run(self)

    return wait_and_run


def record(tracking: TrackingConfig, comparison: Comparison, folder: Path) -> str:
    """Logs a comparison as training does, step by step; returns the parent's id."""
    with hold_run(tracking, folder, comparison.name, {"sara.kind": "comparison"}, comparison.params):
        with reopen_run(folder, 15) as parent:
            parent.log(comparison.base, step=0)
        for run in comparison.runs:
            tags = {"sara.kind": "training", "sara.strategy": run.strategy, "sara.seed": str(run.seed)}
            with open_run(tracking, folder / run.name, run.name, tags, {}, folder) as child:
                for step in range(1, synthetic.STEPS + 1):
                    values = {name: series.at(step) for name, series in run.metrics.items()}
                    child.log({name: x for name, x in values.items() if x is not None}, step)
    return mlflow_run_id(folder)


def same(a: Series, b: Series) -> bool:
    pairs = zip(a.values, b.values, strict=True)
    return a.steps == b.steps and all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in pairs)


def points(client, run_id: str, name: str) -> list[tuple[int, float]]:
    """Every value that MLflow holds, those of one step logged twice included."""
    return sorted((point.step, point.value) for point in client.get_metric_history(run_id, name))


def test_a_comparison_comes_back_value_for_value(uri, tmp_path):
    logged = synthetic.comparison()
    run_id = record(TrackingConfig(uri=uri, experiment="round-trip"), logged, tmp_path)
    got = load_comparison(uri, "round-trip")
    assert (got.run_id, got.name, got.experiment) == (run_id, "demo", "round-trip")
    assert (got.base, got.params) == (logged.base, logged.params)
    assert got.strategies() == logged.strategies()
    for strategy in logged.strategies():
        for before, after in zip(logged.of(strategy), got.of(strategy), strict=True):
            assert (after.seed, after.name, after.status) == (before.seed, before.name, "FINISHED")
            assert after.metrics.keys() == before.metrics.keys()
            assert all(same(before.metrics[name], after.metrics[name]) for name in before.metrics)


def test_the_local_file_holds_what_mlflow_holds(tracking, client, tmp_path):
    values = {"a": 0.1 + 0.2, "b": math.nan, "c": math.inf, "d": -math.inf, "e": 1e-300}
    with open_run(tracking, tmp_path, "values") as run:
        run.log(values, step=1)
        run.log({"a": 2}, step=2)
    local, remote = read_metrics(tmp_path / "metrics.jsonl"), histories(client, run.id)
    assert remote["a"] == Series((1, 2), (0.30000000000000004, 2.0))
    assert remote["c"].values == (math.inf,) and math.isnan(remote["b"].values[0])
    assert local.keys() == remote.keys()
    assert all(same(local[name], remote[name]) for name in local)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no reward"), "FAILED"), (KeyboardInterrupt(), "KILLED"), (SystemExit(1), "KILLED")],
)
def test_a_run_ends_as_its_body_did(tracking, client, tmp_path, error, status):
    with pytest.raises(type(error)), open_run(tracking, tmp_path, "ends") as run:
        run.log({"loss": 0.5}, step=1)
        raise error
    ended = client.get_run(run.id)
    assert ended.info.status == status
    assert ended.info.end_time is not None
    assert ended.data.metrics == {"loss": 0.5}
    assert ended.data.tags["sara.error"].startswith(type(error).__name__)


def test_a_finished_run_is_finished_under_its_parent(tracking, client, tmp_path):
    with (
        open_run(tracking, tmp_path / "p", "parent") as parent,
        open_run(tracking, tmp_path / "p" / "c", "child", parent=tmp_path / "p") as child,
    ):
        pass
    ended = client.get_run(child.id)
    assert ended.info.status == "FINISHED"
    assert ended.data.tags["mlflow.parentRunId"] == parent.id


def test_adding_to_a_run_leaves_its_status_to_the_owner(tracking, client, tmp_path):
    with hold_run(tracking, tmp_path, "owner", {}, {}):
        with reopen_run(tmp_path, 15) as guest:
            guest.log({"eval/accuracy": 0.25}, step=0)
        run = client.get_run(guest.id)
        assert (run.info.status, run.data.metrics) == ("RUNNING", {"eval/accuracy": 0.25})
    with pytest.raises(ZeroDivisionError), reopen_run(tmp_path, 15):
        raise ZeroDivisionError
    assert client.get_run(guest.id).info.status == "FINISHED"


_KILLED = """
import os, sys, time
from pathlib import Path
from sara.config import TrackingConfig
from tasks import delivery
from tasks.tracking import open_run
uri, folder = sys.argv[1:]
delivery.DELIVER_EVERY_S = 1e9
with open_run(TrackingConfig(uri=uri, experiment="tests"), Path(folder), "killed", {"sara.kind": "probe"}) as run:
    for step in range(1, 8):
        run.log({"loss": step / 7, "n": step}, step)
        if step == 3:
            deadline = time.monotonic() + 120
            while run.count_pending() and time.monotonic() < deadline:
                run._delivery._wake.set()
                time.sleep(0.1)
    os._exit(9)
"""


def test_a_killed_run_keeps_every_value_and_each_reaches_mlflow_once(uri, tracking, client, tmp_path):
    command = [sys.executable, "-c", _KILLED, uri, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 9, done.stderr
    everything = Series(tuple(range(1, 8)), tuple(step / 7 for step in range(1, 8)))
    assert read_metrics(tmp_path / "metrics.jsonl")["loss"] == everything
    run_id = mlflow_run_id(tmp_path)
    assert points(client, run_id, "loss") == [(1, 1 / 7), (2, 2 / 7), (3, 3 / 7)]
    with open_run(tracking, tmp_path, "killed") as run:  # from a checkpoint at 5
        for step in (6, 7, 8):
            run.log({"loss": step / 7, "n": step, "time/step_s": 0.1}, step)
    assert run.id == run_id
    assert points(client, run_id, "loss") == [(step, step / 7) for step in range(1, 9)]
    assert [step for step, _ in points(client, run_id, "time/step_s")] == [6, 7, 8]
    assert client.get_run(run_id).info.status == "FINISHED"


def test_a_step_that_comes_out_differently_is_recorded_anew_and_said(tracking, client, tmp_path, caplog):
    with open_run(tracking, tmp_path, "changed") as run:
        run.log({"loss": 1.0, "time/step_s": 1.0}, step=1)
    with open_run(tracking, tmp_path, "changed") as run:
        run.log({"loss": 2.0, "time/step_s": 2.0}, step=1)
    assert histories(client, run.id)["loss"] == Series((1,), (2.0,))
    assert "step 1 differs from an earlier attempt in loss" in caplog.text


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_batch_whose_fate_is_unknown_is_delivered_once(tracking, client, tmp_path, monkeypatch, has_arrived):
    """The connection breaks after, or before, the store has taken the values."""
    from mlflow import MlflowClient

    log_batch, breaks = MlflowClient.log_batch, [ConnectionResetError("the connection broke")]

    def log_and_break(self, run_id, metrics=(), **other):
        if metrics and breaks:
            if has_arrived:
                log_batch(self, run_id, metrics, **other)
            raise breaks.pop()
        log_batch(self, run_id, metrics, **other)

    monkeypatch.setattr(MlflowClient, "log_batch", log_and_break)
    with open_run(tracking, tmp_path, "broken") as run:
        for step in (1, 2, 3):
            run.log({"loss": 0.5, "n": float(step)}, step)
    assert not breaks
    assert points(client, run.id, "loss") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert points(client, run.id, "n") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_lost_cursor_costs_and_doubles_nothing(tracking, client, tmp_path):
    with open_run(tracking, tmp_path, "cursor", params={"lr": 1}) as run:
        run.log({"loss": 0.5}, step=1)
    run_id = run.id
    (tmp_path / "tracking" / "delivered.json").write_text('{"run_')
    with open_run(tracking, tmp_path, "cursor") as run:
        run.log({"loss": 0.25}, step=2)
    assert run.id == run_id
    assert points(client, run_id, "loss") == [(1, 0.5), (2, 0.25)]


def test_timestamps_rise_when_the_clock_goes_back(tracking, client, tmp_path, monkeypatch):
    times = iter([5_000, 9_000, 8_000, 2_000])
    monkeypatch.setattr("tasks.tracking.time.time_ns", lambda: next(times, 1_000) * 1_000_000)
    with open_run(tracking, tmp_path, "clock") as run:
        for step in (1, 2, 3):
            run.log({"loss": float(step)}, step)
    with open_run(tracking, tmp_path, "clock") as run:
        run.log({"loss": 4.0}, 4)
    history = sorted(client.get_metric_history(run.id, "loss"), key=lambda point: point.step)
    stamps = [point.timestamp for point in history]
    assert stamps == sorted(set(stamps)) and len(stamps) == 4
    info = client.get_run(run.id).info
    assert info.status == "FINISHED" and info.end_time >= info.start_time


def test_artifacts_lie_beside_the_database(uri, tracking, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with open_run(tracking, tmp_path, "artifacts") as run:
        run.log_artifact(tmp_path / "a.txt", "given")
        run.log_text("bye", "said/b.txt")
        run.log_dict({"x": 1}, "c.json")
    root = Path(uri.removeprefix("sqlite:///")).parent / "artifacts" / run.id / "artifacts"
    assert (root / "given" / "a.txt").read_text() == "hello"
    assert (root / "said" / "b.txt").read_text() == "bye"
    assert json.loads((root / "c.json").read_text()) == {"x": 1}


def test_names_that_mlflow_refuses_are_named_and_nothing_is_written(tracking, tmp_path):
    with open_run(tracking, tmp_path, "names") as run:
        with pytest.raises(ValueError, match="pass@8"):
            run.log({"loss": 1.0, "eval/pass@8": 0.5}, step=1)
        run.log({"loss": 2.0, "eval/pass_at_8": 0.5}, step=1)
    assert read_metrics(tmp_path / "metrics.jsonl")["loss"] == Series((1,), (2.0,))


def test_settings_become_dotted_parameters(tracking, client, tmp_path):
    settings = {"model": {"path": "m", "lora": {"rank": 8}}, "seeds": [0, 1], "note": "x" * 9000, "cap": None}
    with open_run(tracking, tmp_path, "parameters", params=settings) as run:
        pass
    params = client.get_run(run.id).data.params
    assert params | {"note": ""} == {
        "model.path": "m",
        "model.lora.rank": "8",
        "seeds": "[0, 1]",
        "note": "",
        "cap": "null",
    }
    assert len(params["note"]) == 6000 and params["note"].endswith("x…")


def test_more_parameters_than_one_batch_are_all_kept(tracking, client, tmp_path):
    settings = {f"p{i}": i for i in range(250)}
    with open_run(tracking, tmp_path, "many", params=settings) as run:
        pass
    assert client.get_run(run.id).data.params == flatten(settings)


@pytest.mark.usefixtures("at_the_end")
def test_more_values_than_one_batch_are_all_kept(tracking, client, tmp_path):
    with open_run(tracking, tmp_path, "many values") as run:
        for step in range(30):
            run.log({f"m{i}": float(step * i) for i in range(100)}, step)
        run.log({f"m{i}": 0.5 for i in range(2500)}, 30)
        assert run.id is None
    got = histories(client, run.id)
    assert len(got) == 2500
    assert got["m99"] == Series(tuple(range(31)), (*(99.0 * step for step in range(30)), 0.5))


def test_a_resumed_run_keeps_its_parameters(tracking, client, tmp_path):
    with open_run(tracking, tmp_path, "resumed", params={"lr": 1, "steps": 10}) as run:
        pass
    with open_run(tracking, tmp_path, "resumed", params={"lr": 2, "steps": 10, "new": 3}):
        pass
    assert client.get_run(run.id).data.params == {"lr": "1", "steps": "10", "new": "3"}


def test_the_newest_comparison_is_read_unless_one_is_named(uri, tmp_path):
    tracking = TrackingConfig(uri=uri, experiment="two")
    first = record(tracking, synthetic.comparison(("sara",), (0,)), tmp_path / "1")
    second = record(tracking, synthetic.comparison(("ds",), (0,)), tmp_path / "2")
    assert load_comparison(uri, "two").run_id == second
    assert load_comparison(uri, "two", first).strategies() == ("sara",)


def test_a_retry_replaces_the_attempt_that_failed(uri, tmp_path):
    tracking = TrackingConfig(uri=uri, experiment="retries")
    tags = {"sara.kind": "training", "sara.strategy": "sara", "sara.seed": "0"}
    with hold_run(tracking, tmp_path, "c", {"sara.kind": "comparison"}, {}):
        with open_run(tracking, tmp_path / "good", "good", tags, parent=tmp_path) as good:
            good.log({"loss": 1.0}, step=1)
        with (
            pytest.raises(ZeroDivisionError),
            open_run(tracking, tmp_path / "bad", "bad", tags, parent=tmp_path),
        ):
            raise ZeroDivisionError
    (run,) = load_comparison(uri, "retries").runs
    assert (run.run_id, run.status) == (good.id, "FINISHED")


def test_what_is_missing_is_said_with_what_there_is(uri, tracking, tmp_path):
    with open_run(tracking, tmp_path / "alone", "alone", {"sara.kind": "evaluation"}) as run:
        pass
    with pytest.raises(TrackingError, match=r"no experiment 'tset'; there is .*'tests'"):
        load_comparison(uri, "tset")
    with pytest.raises(TrackingError, match=r"'tests' holds no comparison; it holds .*'alone'"):
        load_comparison(uri, "tests")
    with pytest.raises(TrackingError, match="of kind 'evaluation', expected 'comparison'"):
        load_comparison(uri, "tests", run.id)
    with pytest.raises(TrackingError, match="there is no such file"):
        load_comparison(f"sqlite:///{tmp_path}/none.db", "tests")
    assert [path.name for path in tmp_path.iterdir()] == ["alone"]
    with hold_run(TrackingConfig(uri=uri, experiment="bare"), tmp_path / "c", "c", {"sara.kind": "comparison"}, {}):
        pass
    with pytest.raises(TrackingError, match="has no training run yet"):
        load_comparison(uri, "bare")


def test_a_store_that_stops_answering_costs_no_value_and_no_run(tracking, client, tmp_path, caplog):
    tracking = tracking.model_copy(update={"wait_s": 2.0})
    with open_run(tracking, tmp_path, "gone") as run:
        run.log({"loss": 1.0}, step=1)
        _wait_until_delivered(run)
        client.delete_run(run.id)  # from here on, MLflow refuses everything
        run.log({"loss": 2.0}, step=2)
    assert f"`sara sync {tmp_path}` delivers them" in caplog.text
    assert read_metrics(tmp_path / "metrics.jsonl")["loss"] == Series((1, 2), (1.0, 2.0))
    assert Outbox(tmp_path).count_pending() == 2  # a value and the state FINISHED


def test_trouble_with_mlflow_does_not_hide_the_error_of_a_run(tracking, client, tmp_path):
    tracking = tracking.model_copy(update={"wait_s": 1.0})
    with pytest.raises(ZeroDivisionError), open_run(tracking, tmp_path, "gone") as run:
        _wait_until_delivered(run)
        client.delete_run(run.id)
        raise ZeroDivisionError
    assert Outbox(tmp_path).last_status() == "FAILED"


def _wait_until_delivered(run: Run) -> None:
    while run.count_pending():
        run._delivery._wake.set()
        run._delivery._thread.join(0.05)
