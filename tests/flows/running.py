"""Real services for end-to-end tests: `sara up` on free ports, and clients of what it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600  # of a wait: long, for a machine that is busy with other things

SMALL = {
    "data": {"train_size": 64, "heldout_size": 12, "sizes": {"2": 1.0, "3": 1.0}},
    "allocation": {"groups_per_step": 4, "k": 4, "probe": 2, "increment": 2},
    "learner": {"learning_rate": 1e-3},
    "training": {"steps": 2, "evaluate_every": 0, "threads": 1},
    "evaluation": {"k": 2, "bootstrap": 100},
}
"""A run of two steps, as a deployment's parameters."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """The first true value of the condition; AssertionError if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {timeout_s:.0f} s")


@dataclass(frozen=True)
class Services:
    """`sara up`, running in `folder`."""

    folder: Path
    api: str
    mlflow: str
    process: subprocess.Popen

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.folder) | {"PREFECT_API_URL": self.api, "MLFLOW_TRACKING_URI": self.mlflow}

    def ask(self, path: str, body: dict | None = None) -> Any:
        """Prefect's API: GET, or POST with a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.api}{path}", data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def start(self, deployment: str, parameters: dict) -> str:
        """Start a deployment with changed parameters, as a click in the UI does; the flow run's id."""
        found = self.ask(f"/deployments/name/{deployment}")
        return self.ask(f"/deployments/{found['id']}/create_flow_run", {"parameters": parameters})["id"]

    def run(self, run_id: str) -> dict:
        return self.ask(f"/flow_runs/{run_id}")

    def artifacts(self, run_id: str) -> dict[str, dict]:
        """Latest artifact of each key that a flow run or one of its task runs left."""
        found = self.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run_id]}}})
        return {artifact["key"]: artifact for artifact in reversed(found)}

    def cli(self, *arguments: str) -> tuple[int, str, str]:
        """The command line in this folder: exit code, stdout, stderr."""
        out, err = self.folder / "cli.out", self.folder / "cli.err"
        with out.open("w") as stdout, err.open("w") as stderr:
            done = subprocess.run(
                [sys.executable, "-m", "flows.cli", *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=stdout,
                stderr=stderr,
                timeout=2 * TIMEOUT_S,
                check=False,
            )
        return done.returncode, out.read_text(), err.read_text()


def environment(folder: Path) -> dict[str, str]:
    """A Prefect home and database of the folder's own."""
    home = folder / "prefect"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    return kept | {
        "PREFECT_HOME": str(home),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect.db",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }


@contextlib.contextmanager
def services(folder: Path) -> Iterator[Services]:
    """`sara up`, stopped as Ctrl-C does; nothing of it may be left."""
    ports = {"prefect": free_port(), "mlflow": free_port()}
    command = [sys.executable, "-m", "flows.cli", "up", "--slots", "2"]
    options = [f"--prefect-port={ports['prefect']}", f"--mlflow-port={ports['mlflow']}"]
    with (folder / "up.out").open("w") as out, (folder / "up.err").open("w") as err:
        process = subprocess.Popen(
            [*command, *options], cwd=folder, env=environment(folder), stdout=out, stderr=err, start_new_session=True
        )
        try:
            wait_for("sara up", lambda: "Ctrl-C" in (folder / "up.out").read_text() or process.poll() is not None)
            assert process.poll() is None, (folder / "up.err").read_text()[-3000:]
            urls = (f"http://127.0.0.1:{ports[name]}" for name in ("prefect", "mlflow"))
            api, mlflow = urls
            yield Services(folder, f"{api}/api", mlflow, process)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=120) == 130
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    for port in ports.values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, "a server was left behind"


def is_up(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
        return True
    except (urllib.error.URLError, OSError):
        return False
