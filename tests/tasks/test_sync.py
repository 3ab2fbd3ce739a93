"""A real MLflow server that goes away, freezes and comes back: nothing is missing or doubled."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from sara.config import TrackingConfig
from tasks import delivery
from tasks.comparisons import histories
from tasks.outbox import Outbox
from tasks.run_folder import claim_folder
from tasks.sync import Synced, is_delivered, sync
from tasks.tracking import connect, hold_run, open_run


class Server:
    """An MLflow server on a database that outlives it."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri, self.folder, self.process = f"http://127.0.0.1:{self.port}", folder, None

    def start(self):
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        store = ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--workers", "1"]
        store += ["--artifacts-destination", str(self.folder / "artifacts")]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen([*command, *store], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)
        pytest.fail("MLflow did not start: " + (self.folder / "server.log").read_text()[-2000:])

    def send(self, number):
        os.killpg(self.process.pid, number)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGKILL)
            self.process.wait()


@pytest.fixture(scope="module")
def any_server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def server(any_server):
    """A server that runs; starting one takes many seconds, so it goes from test to test."""
    if any_server.process is None or any_server.process.poll() is not None:
        any_server.start()
    return any_server


def values(client, run_id):
    """Every value that MLflow holds, doubled ones included."""
    names = client.get_run(run_id).data.metrics
    return {name: sorted((p.step, p.value) for p in client.get_metric_history(run_id, name)) for name in names}


def sync_when_let_go(*arguments) -> list[Synced]:
    """`sync`, once the threads of runs that have just been closed have let go of them."""
    deadline = time.monotonic() + 120
    while True:
        results = list(sync(*arguments))
        if time.monotonic() > deadline or all(done.trouble != "its own run delivers it" for done in results):
            return results
        time.sleep(0.1)


def test_a_server_that_is_stopped_and_started_in_mid_run_misses_nothing(server, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(delivery, "DELIVER_EVERY_S", 0.2)
    monkeypatch.setattr(delivery, "LONGEST_PAUSE_S", 0.5)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    settings = TrackingConfig(uri=server.uri, experiment="outage", wait_s=60)
    with open_run(settings, tmp_path / "run", "outage", params={"lr": 1}) as run:
        for step in range(1, 61):
            if step == 20:
                server.stop()
            if step == 40:
                server.start()
            run.log({"loss": 1 / step, "n": float(step)}, step)
            time.sleep(0.02)
    client = connect(server.uri, "outage").client
    assert values(client, run.id) == {
        "loss": [(step, 1 / step) for step in range(1, 61)],
        "n": [(step, float(step)) for step in range(1, 61)],
    }
    assert client.get_run(run.id).info.status == "FINISHED"
    assert "MLflow answers again" in caplog.text


def test_a_server_that_freezes_does_not_hold_up_a_run(server, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(delivery, "DELIVER_EVERY_S", 0.2)
    settings = TrackingConfig(uri=server.uri, experiment="frozen", wait_s=3)
    with open_run(settings, tmp_path / "run", "frozen") as run:
        run.log({"loss": 0.5}, 1)
        while run.count_pending():
            time.sleep(0.1)
        server.send(signal.SIGSTOP)
        run.log({"loss": 0.25}, 2)
        time.sleep(1)  # a request is under way now, and its answer never comes
    assert f"`sara sync {tmp_path / 'run'}` delivers them" in caplog.text
    server.send(signal.SIGCONT)
    assert is_delivered(tmp_path, wait_s=120)
    client = connect(server.uri, "frozen").client
    assert values(client, run.id) == {"loss": [(1, 0.5), (2, 0.25)]}
    assert client.get_run(run.id).info.status == "FINISHED"


def test_runs_that_began_without_a_server_are_delivered_by_sync_once(server, tmp_path, caplog):
    server.stop()
    settings = TrackingConfig(uri=server.uri, experiment="late", when_absent="queue", wait_s=0)
    parent, child = tmp_path / "runs", tmp_path / "runs" / "child"
    with hold_run(settings, parent, "parent", {}, {"lr": 1}), open_run(settings, child, "child", parent=parent) as run:
        run.log({"loss": 0.5}, 1)
        assert run.id is None
    (first, second) = sync_when_let_go([parent])
    assert (first.folder, second.folder) == (parent, child)
    assert first.pending and second.pending and "no MLflow server answers" in second.trouble
    server.start()
    assert [(done.trouble, done.pending) for done in sync([tmp_path])] == [("", 0), ("", 0)]
    assert [done.delivered for done in sync([tmp_path])] == [0, 0]
    client = connect(server.uri, "late").client
    assert values(client, Outbox(child).cursor.run_id) == {"loss": [(1, 0.5)]}
    data = client.get_run(Outbox(child).cursor.run_id).data
    assert data.tags["mlflow.parentRunId"] == Outbox(parent).cursor.run_id
    assert client.get_run(Outbox(parent).cursor.run_id).data.params == {"lr": "1"}
    artifacts = [file.path for file in client.list_artifacts(Outbox(parent).cursor.run_id)]
    assert artifacts == ["config.json"]


def test_a_run_that_went_to_a_wrong_address_is_delivered_elsewhere(tmp_path):
    wrong = TrackingConfig(uri="http://127.0.0.1:9", experiment="moved", when_absent="queue", wait_s=0)
    right = f"sqlite:///{tmp_path}/mlflow.db"
    with open_run(wrong, tmp_path / "run", "moved") as run:
        run.log({"loss": 0.5}, 1)
    assert [done.trouble for done in sync_when_let_go([tmp_path], right)] == [""]
    assert histories(connect(right, "moved").client, run.id)["loss"].values == (0.5,)
    (refused,) = sync([tmp_path], f"sqlite:///{tmp_path}/other.db")
    assert f"is run {run.id} of" in refused.trouble


_KILLED = """
import os, sys
from pathlib import Path
from sara.config import TrackingConfig
from tasks.run_folder import claim_folder
from tasks.tracking import open_run
with claim_folder(Path(sys.argv[2])) as folder, open_run(TrackingConfig(uri=sys.argv[1]), folder, "killed") as run:
    run.log({"loss": 0.5}, 1)
    os.kill(os.getpid(), 9)
"""


def test_a_killed_run_is_marked_so_unless_it_goes_on(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    command = [sys.executable, "-c", _KILLED, uri, str(tmp_path / "run")]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    lock = tmp_path / "run" / ".lock"
    assert lock.exists()
    from filelock import FileLock

    with FileLock(lock):  # another process goes on with it
        assert [done.trouble for done in sync([tmp_path])] == [""]
    client, run_id = connect(uri, "sara").client, Outbox(tmp_path / "run").cursor.run_id
    assert client.get_run(run_id).info.status == "RUNNING"
    assert [done.trouble for done in sync([tmp_path])] == [""]
    assert client.get_run(run_id).info.status == "KILLED"
    assert values(client, run_id) == {"loss": [(1, 0.5)]}


def test_a_folder_without_runs_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="no run was recorded there"):
        sync([tmp_path])


def test_a_run_that_delivers_itself_is_left_alone(tmp_path):
    settings = TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db")
    with claim_folder(tmp_path / "run") as folder, open_run(settings, folder, "alive") as run:
        while run.count_pending():
            time.sleep(0.05)
        run.log({"loss": 0.5}, 1)
        (done,) = sync([tmp_path])
        assert done.trouble == "its own run delivers it"


def test_a_full_store_is_a_reason_to_wait(tmp_path, monkeypatch):
    """SQLite says that the disk is full; later it is not."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with open_run(TrackingConfig(uri=uri, wait_s=60), tmp_path / "run", "full") as run:
        run.log({"loss": 0.5}, 1)
    client = connect(uri, "sara").client
    engine = client._tracking_client.store.engine
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limits = []

    from sqlalchemy import event

    @event.listens_for(engine, "checkout")
    def limit(connection, *_):
        connection.execute(f"PRAGMA max_page_count = {pages if not limits else 1 << 30}")

    with open_run(TrackingConfig(uri=uri, wait_s=1), tmp_path / "run", "full") as run:
        for step in range(2, 400):
            run.log({f"metric/{i}": step / 7 for i in range(20)}, step)
    assert Outbox(tmp_path / "run").count_pending()
    limits.append("none")
    (done,) = sync_when_let_go([tmp_path])
    assert done.trouble == ""
    assert len(client.get_metric_history(run.id, "metric/7")) == 398
