"""Kill a training run with SIGKILL again and again, resume it until it is done, and compare it with one left alone:

    python -m benchmarks.chaos --kills 50 --seed 0

Kills come in the middle of a round, of writing a line of metrics, of saving a checkpoint (at any of its files, or
between its renaming and the removal of older ones), between a delivery to MLflow and the note of it, and, half of them,
at a random time. Prints one JSON object: how many kills of each kind struck, and whether weights, metrics (those on
disk and those in MLflow, but times and the machine's use) and counts of rollouts are those of the undisturbed run.
Exits with 1 if not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import torch

from flows.environment import set_up_environment

set_up_environment()

from sara.checkpoints import files, store  # noqa: E402
from sara.config import RunConfig  # noqa: E402
from sara.reporting.json_lines import JsonLines  # noqa: E402
from sara.reporting.metrics_file import read_records  # noqa: E402
from sara.rollouts import RolloutSampler  # noqa: E402
from tasks import delivery  # noqa: E402
from tasks.outbox import Outbox  # noqa: E402
from tasks.prepare import prepare_data  # noqa: E402
from tasks.tracking import connect, mlflow_run_id  # noqa: E402
from tasks.train import train  # noqa: E402

POINTS = {"round": 30, "line": 12, "saving": 40, "saved": 3, "delivered": 10}
"""Where a kill may strike, and at most at which of the calls that pass there, in eight steps."""


def make_config(folder: Path, steps: int) -> RunConfig:
    """SARA+DPS on a few problems with the built-in model; a checkpoint every second step."""
    return RunConfig(
        name="run",
        strategy="sara+dps",
        output_dir=folder,
        data={"train_size": 64, "heldout_size": 8, "sizes": {2: 1.0, 3: 1.0}},
        allocation={"groups_per_step": 4, "k": 4, "probe": 2, "increment": 2, "tau_low": "auto", "audit_rate": 0.2},
        engine={"max_new_tokens": 64},
        learner={"learning_rate": 1e-3, "warmup_steps": 3},
        training={"steps": steps, "evaluate_every": 3, "threads": 1},
        checkpoint={"every": 2},
        evaluation={"k": 2, "bootstrap": 50},
        tracking={"uri": f"sqlite:///{folder}/mlflow.db", "experiment": "chaos", "wait_s": 120},
    )


def attempt(config: RunConfig, point: str | None, nth: int) -> int:
    """Start or go on in a process of its own; returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        delivery.DELIVER_EVERY_S = 0.3
        if point is not None:
            arm(point, nth)
        train.fn(config, prepare_data.fn(config, config.output_dir / "data"), resume=True)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)


def arm(point: str, nth: int) -> None:
    """Let this process kill itself at the n-th time that it comes past the point."""
    passed = Counter()

    def comes_past() -> bool:
        passed[point] += 1
        return passed[point] == nth

    def kill_before(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def killing(*arguments, **named):
            if comes_past():
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **named)

        setattr(owner, name, killing)

    write = JsonLines._write

    def write_half(self: JsonLines, line: bytes) -> None:
        if comes_past():
            self._file.write(line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, line)

    if point == "line":
        JsonLines._write = write_half
    else:
        owners = {
            "round": [(RolloutSampler, "_score" if nth % 2 else "draw")],
            "saving": [(files, "sync"), (files, "sha256")],
            "saved": [(store.CheckpointStore, "_prune")],
            "delivered": [(Outbox, "save_cursor")],
        }
        for owner, name in owners[point]:
            kill_before(owner, name)


def plan(kills: int, rng: random.Random) -> list[str]:
    """Kinds of kills in random order; of ten, one at each point and the others at random times."""
    kinds = [*POINTS, *["time"] * len(POINTS)]
    planned = [kinds[i % len(kinds)] for i in range(kills)]
    rng.shuffle(planned)
    return planned


def run_to_the_end(config: RunConfig, kills: list[str], rng: random.Random, longest_s: float) -> list[str]:
    """Resume the run until it is done, killing it as planned; returns the kills that found nothing more to strike.

    longest_s   of a kill at a random time: that time at the most
    """
    missed: list[str] = []
    while True:
        kind = kills.pop() if kills else None
        point = kind if kind in POINTS else None
        latest = max(1, POINTS.get(point, 0) * config.training.steps // 8)
        child = attempt(config, point, rng.randint(1, latest))
        status = wait(child, rng.uniform(0, longest_s) if kind == "time" else None)
        if os.WIFSIGNALED(status):
            print(f"killed: {kind}, after step {last_step(config)}", file=sys.stderr, flush=True)
            continue
        if os.WEXITSTATUS(status):
            raise SystemExit(f"an attempt failed with status {os.WEXITSTATUS(status)}, as said above")
        missed += [kind] if kind else []
        return kills + missed


def wait(child: int, kill_after_s: float | None) -> int:
    """The exit status of a process that is killed at a time, if it has not ended by then."""
    deadline = None if kill_after_s is None else time.monotonic() + kill_after_s
    while True:
        ended, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        else:
            time.sleep(0.005)


def last_step(config: RunConfig) -> int:
    return max((step for step, _, _ in read_records(config.output_dir / "run" / "metrics.jsonl")), default=0)


def outcome(config: RunConfig) -> dict[str, object]:
    """Hash of the weights, every metric on disk and in MLflow but what is measured by clock, and what was spent."""
    folder = config.output_dir / "run"
    on_disk: dict[str, list[tuple[int, float]]] = {}
    for step, _, values in read_records(folder / "metrics.jsonl"):
        for name, value in values.items():
            on_disk.setdefault(name, []).append((step, value))
    client = connect(config.tracking.uri, "chaos").client
    run_id = mlflow_run_id(folder)
    run = client.get_run(run_id)
    in_mlflow = {
        name: sorted((point.step, point.value) for point in client.get_metric_history(run_id, name))
        for name in run.data.metrics
    }
    counts = {name: [value for _, value in points] for name, points in on_disk.items() if name.startswith("rollouts/")}
    weights = (folder / "model" / "model.safetensors").read_bytes()
    return {
        "weights": hashlib.sha256(weights).hexdigest(),
        "metrics on disk": _without_times(on_disk),
        "metrics in MLflow": _without_times(in_mlflow),
        "times": {name: [step for step, _ in sorted(points)] for name, points in in_mlflow.items() if "time/" in name},
        "rollouts": counts,
        "runs in MLflow": len(client.search_runs([run.info.experiment_id])),
        "state in MLflow": run.info.status,
    }


def _without_times(points: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    measured = ("time/", "system/", "memory", "throughput")
    return {name: sorted(values) for name, values in points.items() if not any(word in name for word in measured)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=8, help="of each run; runs are made until all kills have struck")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, rng, same = time.monotonic(), random.Random(options.seed), {}
    planned = plan(options.kills, rng)
    with tempfile.TemporaryDirectory() as root:
        alone = make_config(Path(root) / "alone", options.steps)
        run_to_the_end(alone, [], rng, 0)
        alone_s = time.monotonic() - started
        expected, runs, left = outcome(alone), 0, list(planned)
        while left:
            runs += 1
            disturbed = make_config(Path(root) / f"disturbed-{runs}", options.steps)
            left = run_to_the_end(disturbed, left, rng, alone_s / 2)
            got = outcome(disturbed)
            for name in expected:
                same[name] = same.get(name, True) and expected[name] == got[name]
                if expected[name] != got[name]:
                    print(f"run {runs}, {name}: {_difference(expected[name], got[name])}", file=sys.stderr)
    values = sum(len(points) for points in expected["metrics in MLflow"].values())
    report = {"kills": len(planned), "struck": Counter(planned), "runs": runs, "steps": options.steps}
    report |= {"values in a run": values, "same": same, "wall_s": round(time.monotonic() - started)}
    print(json.dumps(report, indent=2))
    sys.exit(not all(same.values()))


def _difference(expected: object, got: object) -> str:
    if not isinstance(expected, dict):
        return f"expected {expected}, got {got}"
    differing = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
    return "; ".join(f"{name}: expected {expected.get(name)}, got {got.get(name)}" for name in differing[:3])


if __name__ == "__main__":
    main()
