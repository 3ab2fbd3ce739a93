"""What recording and checkpoints cost, as a share of a training step:

    python -m benchmarks.overhead --steps 20

Three trainers of the built-in model take the same steps in turn, in one process: one records nothing, one records to a
real MLflow server, one to a server that is stopped after the first quarter and started again after the third. The
first of them is saved after each step. Prints, as JSON, each arm's median step time over that of the first, step by
step, so that what else the machine does cancels, by the clock and in processor time of the loop's thread; the time in
which the loop itself waits for a record and for a checkpoint, as a share of a step; and whether the server has every
value once in the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from flows.environment import set_up_environment

set_up_environment()
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"

from sara.config import RunConfig  # noqa: E402
from sara.datasets import load_prepared  # noqa: E402
from sara.models import load_policy  # noqa: E402
from sara.reporting.metrics_file import read_records  # noqa: E402
from sara.training import Trainer  # noqa: E402
from tasks import delivery  # noqa: E402
from tasks.checkpointing import Checkpointer  # noqa: E402
from tasks.prepare import PreparedData, prepare_data  # noqa: E402
from tasks.tracking import Run, connect, open_run  # noqa: E402


class Server:
    """An MLflow server on a database that outlives it."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.uri = folder, f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        store = ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--workers", "1"]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen([*command, *store], stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> None:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
                return
            time.sleep(0.2)
        raise SystemExit("MLflow did not start")

    def stop(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def make_config(folder: Path, uri: str) -> RunConfig:
    return RunConfig(
        strategy="sara",
        output_dir=folder,
        training={"threads": 1},
        allocation={"groups_per_step": 8},
        data={"heldout_size": 8},
        tracking={"uri": uri, "experiment": "overhead", "wait_s": 120},
    )


def make_trainer(config: RunConfig, data: PreparedData) -> Trainer:
    problems = [load_prepared(config.data, side, getattr(data, side).path) for side in ("train", "heldout")]
    return Trainer(config, load_policy(config.model), *problems)


def measure(steps: int, steady: Server, broken: Server, folder: Path) -> dict[str, object]:
    configs = {name: make_config(folder / name, server.uri) for name, server in (("a", steady), ("b", broken))}
    data = prepare_data.fn(configs["a"], folder / "data")
    arms = {name: make_trainer(configs["a"], data) for name in ("alone", "recorded", "server away")}
    seconds: dict[str, list[float]] = {name: [] for name in (*arms, "record", "save")}
    processor: dict[str, list[float]] = {name: [] for name in arms}
    with (
        open_run(configs["a"].tracking, folder / "recorded", "recorded") as recorded,
        open_run(configs["b"].tracking, folder / "away", "server away") as away,
    ):
        checkpointer = Checkpointer(arms["alone"], recorded, data)
        runs: dict[str, Run | None] = {"alone": None, "recorded": recorded, "server away": away}
        for step in range(1, steps + 1):
            if step == steps // 4:
                broken.stop()
            if step == 3 * steps // 4:
                broken.start()
            names = list(arms)
            for name in names[step % 3 :] + names[: step % 3]:  # each is first, second and third in turn
                start, thread_start = time.perf_counter(), time.thread_time()
                report = arms[name].step()
                stepped = time.perf_counter()
                if runs[name] is not None:
                    runs[name].log(report.metrics, step)
                    seconds["record"].append(time.perf_counter() - stepped)
                seconds[name].append(time.perf_counter() - start)
                processor[name].append(time.thread_time() - thread_start)
            start = time.perf_counter()
            checkpointer.save()
            seconds["save"].append(time.perf_counter() - start)
    weights = sum(weight.numel() * weight.element_size() for weight in arms["alone"].policy.model.parameters())
    is_complete = {"recorded": has_each_once(steady, recorded), "server away": has_each_once(broken, away)}
    return report_of(seconds, processor) | {"every value once": is_complete, "weights_mib": round(weights / 2**20, 1)}


def has_each_once(server: Server, run: Run) -> bool:
    """Whether the server has every value of the run's own record, as often as it is there."""
    recorded = Counter(
        (name, step, value)
        for step, _, values in read_records(run.folder / "metrics.jsonl")
        for name, value in values.items()
    )
    client = connect(server.uri, "overhead").client
    names = client.get_run(run.id).data.metrics
    delivered = Counter((p.key, p.step, p.value) for name in names for p in client.get_metric_history(run.id, name))
    return recorded == delivered and set(recorded.values()) == {1}


def report_of(seconds: dict[str, list[float]], processor: dict[str, list[float]]) -> dict[str, object]:
    step_s = np.median(seconds["alone"])
    return {
        "steps": len(seconds["alone"]),
        "step_s": round(float(step_s), 3),
        "step, over one that records nothing": over_alone(seconds),
        "the same, in processor time": over_alone(processor),
        "waiting for a record, share of a step": round(float(np.median(seconds["record"]) / step_s), 5),
        "waiting for a checkpoint, share of a step": round(float(np.median(seconds["save"]) / step_s), 4),
    }


def over_alone(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """Median and quartiles of the ratio of each step to the same step of the arm that records nothing."""
    ratios = {name: np.array(times[name]) / np.array(times["alone"]) for name in ("recorded", "server away")}
    return {name: [round(float(np.quantile(ratio, q)), 3) for q in (0.5, 0.25, 0.75)] for name, ratio in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    delivery.LONGEST_PAUSE_S = 2.0
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("steady", "broken")]
        for folder in folders:
            folder.mkdir()
        servers = [Server(folder) for folder in folders]
        try:
            for server in servers:
                server.start()
            for server in servers:
                server.wait()
            print(json.dumps(measure(options.steps, *servers, Path(root)), indent=2))
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
