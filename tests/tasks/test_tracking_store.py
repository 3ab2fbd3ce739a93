"""Stores that are fresh, killed while they are made, absent or none at all."""

import socket
import subprocess
import sys

import pytest

from sara.config import TrackingConfig
from tasks.tracking import TrackingError, connect, open_run, require_store

_FIRST_USE = """
import sys
from pathlib import Path
from sara.config import TrackingConfig
from tasks.tracking import open_run
with open_run(TrackingConfig(uri=sys.argv[1], experiment="fresh", wait_s=120), Path(sys.argv[2]), "first") as run:
    run.log({"x": 1.0}, 1)
"""


def test_two_processes_may_meet_a_fresh_database(tmp_path):
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    commands = [[sys.executable, "-c", _FIRST_USE, uri, str(tmp_path / name)] for name in "ab"]
    for process in [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]:
        _, stderr = process.communicate(timeout=240)
        assert process.returncode == 0, stderr
    tracker = connect(uri, "fresh")
    runs = tracker.client.search_runs([tracker.experiment_id])
    assert [run.data.metrics for run in runs] == [{"x": 1.0}] * 2


_KILLED_IN_THE_FIRST_USE = """
import os, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from tasks.tracking import connect
tables = []

@event.listens_for(Engine, "before_cursor_execute")
def count(connection, cursor, statement, *_):
    tables.append(statement.lstrip().startswith("CREATE TABLE"))
    if sum(tables) == 40:
        os.kill(os.getpid(), 9)

connect(sys.argv[1], "fresh")
"""


def test_a_kill_while_the_database_is_made_leaves_none_that_cannot_be_used(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    killed = subprocess.run([sys.executable, "-c", _KILLED_IN_THE_FIRST_USE, uri], check=False, timeout=240)
    assert killed.returncode == -9
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("mlflow.db.partial")]
    with open_run(TrackingConfig(uri=uri, experiment="fresh", wait_s=120), tmp_path / "run", "first") as run:
        run.log({"x": 1.0}, 1)
    assert connect(uri, "fresh").client.get_run(run.id).data.metrics == {"x": 1.0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db", "mlflow.db.lock", "run"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_is_not_there_is_named_with_what_to_do():
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TrackingError) as caught:
        require_store(TrackingConfig(uri=uri))
    message = str(caught.value)
    assert message.startswith(f"tracking.uri = {uri}: no MLflow server answers there")
    assert "make ui" in message and "sqlite:///" in message and "\n" not in message


def test_a_server_that_is_not_there_may_be_waited_for(caplog):
    require_store(TrackingConfig(uri=f"http://127.0.0.1:{free_port()}", when_absent="queue"))
    assert "what is recorded waits for it" in caplog.text
    with pytest.raises(TrackingError, match="is not a store"):
        require_store(TrackingConfig(uri="redis://host", when_absent="queue"))


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
