import json
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sara.reporting import Comparison, Series
from sara.reporting.metrics_file import read_metrics
from tasks import tracking
from tasks.comparisons import histories
from tasks.tracking import Tracker, TrackingError, connect, flatten, load_comparison
from tests.sara.reporting import synthetic


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/deep/mlflow.db"


@pytest.fixture(scope="module")
def tracker(uri) -> Tracker:
    return connect(uri, "tests")


def record(tracker: Tracker, comparison: Comparison, folder: Path) -> str:
    """Logs a comparison as training does, step by step; returns the parent's id."""
    with tracker.start_run(comparison.name, {"sara.kind": "comparison"}, comparison.params) as parent:
        parent.log(comparison.base, step=0)
        for run in comparison.runs:
            tags = {"sara.kind": "training", "sara.strategy": run.strategy, "sara.seed": str(run.seed)}
            path = folder / run.name / "metrics.jsonl"
            with tracker.start_run(run.name, tags, {}, parent.id, metrics_path=path) as child:
                for step in range(1, synthetic.STEPS + 1):
                    values = {name: series.at(step) for name, series in run.metrics.items()}
                    child.log({name: x for name, x in values.items() if x is not None}, step)
    return parent.id


def same(a: Series, b: Series) -> bool:
    pairs = zip(a.values, b.values, strict=True)
    return a.steps == b.steps and all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in pairs)


def test_a_comparison_comes_back_value_for_value(uri, tmp_path):
    logged = synthetic.comparison()
    run_id = record(connect(uri, "round-trip"), logged, tmp_path)
    got = load_comparison(uri, "round-trip")
    assert (got.run_id, got.name, got.experiment) == (run_id, "demo", "round-trip")
    assert (got.base, got.params) == (logged.base, logged.params)
    assert got.strategies() == logged.strategies()
    for strategy in logged.strategies():
        for before, after in zip(logged.of(strategy), got.of(strategy), strict=True):
            assert (after.seed, after.name, after.status) == (before.seed, before.name, "FINISHED")
            assert after.metrics.keys() == before.metrics.keys()
            assert all(same(before.metrics[name], after.metrics[name]) for name in before.metrics)


def test_the_local_file_holds_what_mlflow_holds(tracker, tmp_path):
    path = tmp_path / "metrics.jsonl"
    values = {"a": 0.1 + 0.2, "b": math.nan, "c": math.inf, "d": -math.inf, "e": 1e-300}
    with tracker.start_run("values", metrics_path=path) as run:
        run.log(values, step=1)
        run.log({"a": 2}, step=2)
    local, remote = read_metrics(path), histories(tracker.client, run.id)
    assert remote["a"] == Series((1, 2), (0.30000000000000004, 2.0))
    assert remote["c"].values == (math.inf,) and math.isnan(remote["b"].values[0])
    assert local.keys() == remote.keys()
    assert all(same(local[name], remote[name]) for name in local)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no reward"), "FAILED"), (KeyboardInterrupt(), "KILLED"), (SystemExit(1), "KILLED")],
)
def test_a_run_ends_as_its_body_did(tracker, error, status):
    with pytest.raises(type(error)), tracker.start_run("ends") as run:
        run.log({"loss": 0.5}, step=1)
        raise error
    ended = tracker.client.get_run(run.id)
    assert ended.info.status == status
    assert ended.info.end_time is not None
    assert ended.data.metrics == {"loss": 0.5}
    assert ended.data.tags["sara.error"].startswith(type(error).__name__)


def test_a_finished_run_is_finished_under_its_parent(tracker):
    with tracker.start_run("parent") as parent, tracker.start_run("child", parent_run_id=parent.id) as child:
        pass
    ended = tracker.client.get_run(child.id)
    assert ended.info.status == "FINISHED"
    assert ended.data.tags["mlflow.parentRunId"] == parent.id


def test_attaching_leaves_the_status_to_the_owner(tracker, tmp_path):
    with tracker.start_run("owner") as owner:
        with tracker.attach(owner.id, tmp_path / "metrics.jsonl") as guest:
            guest.log({"eval/accuracy": 0.25}, step=0)
        assert tracker.client.get_run(owner.id).info.status == "RUNNING"
        assert tracker.client.get_run(owner.id).data.metrics == {"eval/accuracy": 0.25}
    with pytest.raises(ZeroDivisionError), tracker.attach(owner.id):
        raise ZeroDivisionError
    assert tracker.client.get_run(owner.id).info.status == "FINISHED"


_KILLED = """
import os, sys
from pathlib import Path
from tasks import tracking
uri, path = sys.argv[1:]
tracking.FLUSH_SECONDS = 1e9
with tracking.connect(uri, "tests").start_run("killed", {"sara.kind": "probe"}, metrics_path=Path(path)) as run:
    for step in range(1, 8):
        run.log({"loss": step / 7, "n": step}, step)
        if step == 3:
            run.flush()
    print(run.id, flush=True)
    os._exit(9)
"""


def test_a_killed_run_keeps_every_value_and_gives_them_to_mlflow_when_resumed(uri, tracker, tmp_path):
    path = tmp_path / "metrics.jsonl"
    done = subprocess.run([sys.executable, "-c", _KILLED, uri, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    run_id = done.stdout.strip()
    everything = Series(tuple(range(1, 8)), tuple(step / 7 for step in range(1, 8)))
    assert read_metrics(path)["loss"] == everything
    assert histories(tracker.client, run_id)["loss"].steps == (1, 2, 3)

    with tracker.start_run("killed", run_id=run_id, metrics_path=path) as run:  # from a checkpoint at 5
        for step in (6, 7, 8):
            run.log({"loss": step / 8, "n": step}, step)
    resumed = histories(tracker.client, run_id)["loss"]
    assert resumed.steps == tuple(range(1, 9))
    assert resumed.values == (*everything.values[:5], 6 / 8, 7 / 8, 1.0)
    assert tracker.client.get_run(run_id).info.status == "FINISHED"


_FIRST_USE = """
import sys
from tasks.tracking import connect
with connect(sys.argv[1], "fresh").start_run("first") as run:
    run.log({"x": 1.0}, 1)
"""


def test_two_processes_may_meet_a_fresh_database(tmp_path):
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    both = [
        subprocess.Popen([sys.executable, "-c", _FIRST_USE, uri], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        _, stderr = process.communicate(timeout=240)
        assert process.returncode == 0, stderr
    tracker = connect(uri, "fresh")
    assert len(tracker.client.search_runs([tracker.experiment_id])) == 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_is_not_there_is_named_with_what_to_do():
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TrackingError) as caught:
        connect(uri, "tests")
    message = str(caught.value)
    assert message.startswith(f"tracking.uri = {uri}: no MLflow server answers there")
    assert "make ui" in message and "sqlite:///" in message and "\n" not in message


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("file:./mlruns", "no longer keeps runs in plain folders"),
        ("./mlruns", "no longer keeps runs in plain folders"),
        ("sqlite:///:memory:", "expected a file"),
        ("sqlite://", "expected a file"),
        ("redis://host", "'redis' is not a store"),
        ("http:///nowhere", "no MLflow server answers there"),
    ],
)
def test_stores_that_cannot_work_are_refused_in_one_line(uri, said):
    with pytest.raises(TrackingError) as caught:
        connect(uri, "tests")
    assert said in str(caught.value) and uri in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.db").write_text("not a database at all, but long enough to look at" * 20)
    with pytest.raises(TrackingError, match="MLflow says"):
        connect(f"sqlite:///{tmp_path}/notes.db", "tests")
    (tmp_path / "plain").write_text("")
    with pytest.raises(TrackingError, match="cannot make the folder"):
        connect(f"sqlite:///{tmp_path}/plain/mlflow.db", "tests")


def test_artifacts_lie_beside_the_database(uri, tracker, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with tracker.start_run("artifacts") as run:
        run.log_artifact(tmp_path / "a.txt", "given")
        run.log_text("bye", "said/b.txt")
        run.log_dict({"x": 1}, "c.json")
    root = Path(uri.removeprefix("sqlite:///")).parent / "artifacts" / run.id / "artifacts"
    assert (root / "given" / "a.txt").read_text() == "hello"
    assert (root / "said" / "b.txt").read_text() == "bye"
    assert json.loads((root / "c.json").read_text()) == {"x": 1}


def test_names_that_mlflow_refuses_are_named_and_nothing_is_written(tracker, tmp_path):
    path = tmp_path / "metrics.jsonl"
    with tracker.start_run("names", metrics_path=path) as run:
        with pytest.raises(ValueError, match="pass@8"):
            run.log({"loss": 1.0, "eval/pass@8": 0.5}, step=1)
        run.log({"loss": 2.0, "eval/pass_at_8": 0.5}, step=1)
    assert read_metrics(path)["loss"] == Series((1,), (2.0,))


def test_settings_become_dotted_parameters(tracker):
    settings = {"model": {"path": "m", "lora": {"rank": 8}}, "seeds": [0, 1], "note": "x" * 9000, "cap": None}
    with tracker.start_run("parameters", params=settings) as run:
        pass
    params = tracker.client.get_run(run.id).data.params
    assert params | {"note": ""} == {
        "model.path": "m",
        "model.lora.rank": "8",
        "seeds": "[0, 1]",
        "note": "",
        "cap": "null",
    }
    assert len(params["note"]) == 6000 and params["note"].endswith("x…")


def test_more_parameters_than_one_batch_are_all_kept(tracker):
    settings = {f"p{i}": i for i in range(250)}
    with tracker.start_run("many", params=settings) as run:
        pass
    assert tracker.client.get_run(run.id).data.params == flatten(settings)


def test_more_values_than_one_batch_are_all_kept(tracker, monkeypatch):
    monkeypatch.setattr(tracking, "FLUSH_METRICS", 10**9)
    monkeypatch.setattr(tracking, "FLUSH_SECONDS", 1e9)
    with tracker.start_run("many values") as run:
        for step in range(30):
            run.log({f"m{i}": float(step * i) for i in range(100)}, step)
        assert tracker.client.get_run(run.id).data.metrics == {}
    got = histories(tracker.client, run.id)
    assert len(got) == 100
    assert got["m99"] == Series(tuple(range(30)), tuple(99.0 * step for step in range(30)))


def test_a_resumed_run_keeps_its_parameters_and_says_so(tracker, caplog):
    with tracker.start_run("resumed", params={"lr": 1, "steps": 10}) as run:
        pass
    with tracker.start_run("resumed", run_id=run.id, params={"lr": 2, "steps": 10, "new": 3}):
        pass
    assert tracker.client.get_run(run.id).data.params == {"lr": "1", "steps": "10", "new": "3"}
    assert "keeps the parameters it was started with: lr" in caplog.text


def test_the_newest_comparison_is_read_unless_one_is_named(uri, tmp_path):
    tracker = connect(uri, "two")
    first = record(tracker, synthetic.comparison(("sara",), (0,)), tmp_path / "1")
    second = record(tracker, synthetic.comparison(("ds",), (0,)), tmp_path / "2")
    assert load_comparison(uri, "two").run_id == second
    assert load_comparison(uri, "two", first).strategies() == ("sara",)


def test_a_retry_replaces_the_attempt_that_failed(uri):
    tracker = connect(uri, "retries")
    tags = {"sara.kind": "training", "sara.strategy": "sara", "sara.seed": "0"}
    with tracker.start_run("c", {"sara.kind": "comparison"}) as parent:
        with tracker.start_run("good", tags, parent_run_id=parent.id) as good:
            good.log({"loss": 1.0}, step=1)
        with pytest.raises(ZeroDivisionError), tracker.start_run("bad", tags, parent_run_id=parent.id):
            raise ZeroDivisionError
    (run,) = load_comparison(uri, "retries").runs
    assert (run.run_id, run.status) == (good.id, "FINISHED")


def test_what_is_missing_is_said_with_what_there_is(uri, tracker, tmp_path):
    with pytest.raises(TrackingError, match=r"no experiment 'tset'; there is .*'tests'"):
        load_comparison(uri, "tset")
    with tracker.start_run("alone", {"sara.kind": "training"}) as run:
        pass
    with pytest.raises(TrackingError, match=r"'tests' holds no comparison; it holds .*'alone'"):
        load_comparison(uri, "tests")
    with pytest.raises(TrackingError, match="of kind 'training', expected 'comparison'"):
        load_comparison(uri, "tests", run.id)
    with pytest.raises(TrackingError, match="there is no such file"):
        load_comparison(f"sqlite:///{tmp_path}/none.db", "tests")
    assert list(tmp_path.iterdir()) == []
    with connect(uri, "bare").start_run("c", {"sara.kind": "comparison"}):
        pass
    with pytest.raises(TrackingError, match="has no training run yet"):
        load_comparison(uri, "bare")


def test_a_store_that_stops_answering_costs_no_value(tracker, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tracking, "FLUSH_METRICS", 1)
    path = tmp_path / "metrics.jsonl"
    with (
        pytest.raises(TrackingError, match=r"every value is in .*metrics\.jsonl"),
        tracker.start_run("gone", metrics_path=path) as run,
    ):
        run.log({"loss": 1.0}, step=1)
        tracker.client.delete_run(run.id)  # from here on, MLflow refuses everything
        run.log({"loss": 2.0}, step=2)
    assert "1 values wait for MLflow" in caplog.text
    assert read_metrics(path)["loss"] == Series((1, 2), (1.0, 2.0))


def test_trouble_with_mlflow_does_not_hide_the_error_of_a_run(tracker, caplog):
    with pytest.raises(ZeroDivisionError), tracker.start_run("gone") as run:
        tracker.client.delete_run(run.id)
        raise ZeroDivisionError
    assert "could not be marked FAILED" in caplog.text
