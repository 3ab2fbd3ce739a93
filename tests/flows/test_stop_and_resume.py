"""Runs in a terminal that are stopped, killed or left alone by Prefect, and `--resume` after it: all of it real."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flows.running import free_port, is_up, wait_for

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [
    *("strategy=sara", "data.train_size=48", "data.heldout_size=4", "data.sizes={2=1,3=1}", "engine.max_new_tokens=48"),
    *("allocation.groups_per_step=3", "allocation.k=4", "allocation.probe=2", "allocation.increment=2"),
    *("training.steps=500", "training.evaluate_every=0", "training.threads=1", "evaluation.k=2"),
]


class Shell:
    """Runs `sara` in a folder of its own, as a terminal does: in a process group that Ctrl-C reaches as a whole."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = os.environ | {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/prefect.db",
            "PYTHONPATH": str(ROOT),
        }
        self.environment.pop("PREFECT_API_URL", None)

    def start(self, *arguments: str) -> subprocess.Popen:
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            command = [sys.executable, "-m", "flows.cli", *arguments]
            return subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=out, stderr=err, start_new_session=True
            )

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait(timeout=600)

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text()

    def states(self) -> list[str]:
        with sqlite3.connect(self.folder / "prefect.db") as database:
            return [name for (name,) in database.execute("SELECT state_name FROM flow_run ORDER BY created")]


@pytest.fixture
def shell(tmp_path) -> Shell:
    return Shell(tmp_path)


def test_ctrl_c_saves_ends_as_cancelled_and_says_how_to_go_on(shell):
    running = shell.start("train", *SETTINGS)
    metrics = shell.folder / "outputs" / "run" / "training" / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=120) == 130, shell.said
    (line,) = [line for line in shell.said.splitlines() if line.startswith("sara: ")]
    assert "stopped by SIGINT; step " in line and "is saved in outputs/run/training" in line
    assert "go on with: sara train --resume strategy=sara" in line and "'data.sizes={2=1,3=1}'" in line
    assert "Traceback" not in shell.said
    assert shell.states() == ["Cancelled"]
    with sqlite3.connect(shell.folder / "outputs" / "mlflow.db") as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("KILLED",)]

    taken = len(metrics.read_text().splitlines())
    assert shell.run("train", "--resume", f"training.steps={taken + 1}") == 2
    assert f"training.steps was 500, now {taken + 1}" in shell.said and shell.said.count("\n") == 1
    assert shell.run("train", "--resume", "--allow", "training.steps", f"training.steps={taken + 1}") == 0, shell.said
    assert shell.states() == ["Cancelled", "Completed"]
    assert shell.run("train", "--resume") == 0
    assert f"had finished already, after {taken + 1} steps" in shell.said
    with sqlite3.connect(shell.folder / "outputs" / "mlflow.db") as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)]
        steps = database.execute("SELECT step FROM metrics WHERE key = 'loss' OR key = 'reward/mean' ORDER BY step")
        counted = [step for (step,) in steps]
    assert set(counted) == set(range(1, taken + 2))


def wait_for_steps(shell: Shell, running: subprocess.Popen, metrics: Path, steps: int) -> None:
    def are_there() -> bool:
        assert running.poll() is None, shell.said
        return metrics.exists() and len(metrics.read_text().splitlines()) >= steps

    wait_for(f"{steps} steps", are_there)


def test_a_prefect_server_that_goes_away_for_good_costs_no_step(shell):
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (shell.folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=shell.environment, stdout=log, stderr=log, start_new_session=True)
    shell.environment |= {"PREFECT_API_URL": api, "PREFECT_CLIENT_MAX_RETRIES": "1"}
    try:
        wait_for("Prefect's server", lambda: is_up(f"{api}/health"))
        running = shell.start("train", *SETTINGS, "training.steps=20")
        metrics = shell.folder / "outputs" / "run" / "training" / "metrics.jsonl"
        wait_for_steps(shell, running, metrics, 3)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert running.wait(timeout=600) == 1
    (line,) = [line for line in shell.said.splitlines() if line.startswith("sara: ")]
    assert "the Prefect server does not answer" in line and "go on with: sara train --resume" in line
    assert "Traceback" not in shell.said
    assert len(metrics.read_text().splitlines()) == 20, "it went on training"

    assert shell.run("train", "--resume") == 2
    assert "no Prefect server answers there" in shell.said and "unset PREFECT_API_URL" in shell.said
    del shell.environment["PREFECT_API_URL"]
    assert shell.run("train", "--resume") == 0, shell.said
    assert "eval/accuracy" in metrics.read_text()
    with sqlite3.connect(shell.folder / "outputs" / "mlflow.db") as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)]


def test_a_killed_comparison_goes_on_with_what_is_missing(shell):
    settings = [*SETTINGS[1:], "strategies=uniform,sara+dps", "training.steps=6", "checkpoint.every=2"]
    running = shell.start("compare", *settings)
    folder = shell.folder / "outputs" / "comparison"
    wait_for_steps(shell, running, folder / "sara-dps-seed0" / "metrics.jsonl", 3)
    os.killpg(running.pid, signal.SIGKILL)
    assert running.wait(timeout=60) == -signal.SIGKILL
    finished = (folder / "uniform-seed0" / "metrics.jsonl").read_bytes()
    assert shell.run("compare", "--resume") == 0, shell.said
    assert (folder / "uniform-seed0" / "metrics.jsonl").read_bytes() == finished
    with sqlite3.connect(shell.folder / "outputs" / "mlflow.db") as database:
        assert database.execute("SELECT name, status FROM runs ORDER BY name").fetchall() == [
            ("comparison", "FINISHED"),
            ("sara+dps seed 0", "FINISHED"),
            ("uniform seed 0", "FINISHED"),
        ]
        doubled = (
            "SELECT key, step FROM metrics GROUP BY run_uuid, key, step HAVING COUNT(*) > 1 AND key NOT LIKE 'sys%'"
        )
        assert database.execute(doubled).fetchall() == []
        steps = database.execute("SELECT step FROM metrics WHERE key = 'reward/mean' ORDER BY step").fetchall()
    assert [step for (step,) in steps] == sorted([*range(1, 7)] * 2)


def test_there_is_nothing_to_go_on_with_where_nothing_was_run(shell):
    assert shell.run("train", "--resume", "name=never") == 2
    assert shell.said == (
        "sara: outputs/never: no run to go on with; start one without --resume, or name another: name=...\n"
    )


def test_ctrl_c_in_a_sweep_keeps_its_cells_and_the_same_command_goes_on(shell):
    settings = [setting for setting in SETTINGS if not setting.startswith(("strategy", "training.steps"))]
    command = ["sweep", "name=stopped", "strategies=ds,sara", "training.steps=30", "--json", *settings]
    running = shell.start(*command)
    cells = shell.folder / "outputs" / "stopped" / "cells"

    def has_second_begun() -> bool:
        logs = [path / "training" / "metrics.jsonl" for path in cells.glob("sara-*")]
        return any(log.exists() and log.stat().st_size for log in logs)

    wait_for("the second cell to train", lambda: has_second_begun() or running.poll() is not None)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=120) == 130, shell.said
    (line,) = [line for line in shell.said.splitlines() if line.startswith("sara: ")]
    assert "the same command goes on" in line and "Traceback" not in shell.said
    assert shell.states()[0] == "Cancelled"

    (first,) = cells.glob("ds-*/result.json")
    before = first.stat().st_mtime_ns
    assert shell.run(*command) == 0, shell.said
    told = json.loads((shell.folder / "out").read_text())["cells"]
    assert [cell["status"] for cell in told] == ["was finished", "finished"]
    assert first.stat().st_mtime_ns == before
    (metrics,) = cells.glob("sara-*/training/metrics.jsonl")
    steps = [json.loads(text)["step"] for text in metrics.read_text().splitlines() if "rollouts/generated" in text]
    assert steps == list(range(1, 31)), "a step is missing or doubled"
