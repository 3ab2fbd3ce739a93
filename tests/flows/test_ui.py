"""`sara ui`: both pages answer on 127.0.0.1, show the records, and stop together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from sara.config import TrackingConfig
from tasks.tracking import connect, open_run


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url: str, timeout_s: float = 120.0) -> bytes:
    """The body at a URL, once its server answers."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.read()
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_both_pages_show_the_records_and_stop_together(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracker = connect(uri, "seen")
    with open_run(TrackingConfig(uri=uri, experiment="seen"), tmp_path / "run", "a run"):
        pass
    mlflow_port, prefect_port = free_port(), free_port()
    command = [sys.executable, "-m", "flows.cli", "ui", f"tracking.uri={uri}", "tracking.experiment=seen"]
    ports = ["--mlflow-port", str(mlflow_port), "--prefect-port", str(prefect_port)]
    environment = os.environ | {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{tmp_path}/prefect.db",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    environment.pop("PREFECT_API_URL", None)
    with (
        (tmp_path / "out").open("w") as out,
        (tmp_path / "err").open("w") as err,
        subprocess.Popen([*command, *ports], cwd=tmp_path, env=environment, stdout=out, stderr=err) as ui,
    ):
        try:
            assert get(f"http://127.0.0.1:{prefect_port}/api/health") == b"true"
            experiment = json.loads(
                get(f"http://127.0.0.1:{mlflow_port}/api/2.0/mlflow/experiments/get-by-name?experiment_name=seen")
            )
            assert experiment["experiment"]["experiment_id"] == tracker.experiment_id
        finally:
            ui.send_signal(signal.SIGINT)
            assert ui.wait(timeout=60) == 130
    for port in (mlflow_port, prefect_port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert f"/#/experiments/{tracker.experiment_id}/runs" in (tmp_path / "out").read_text()
