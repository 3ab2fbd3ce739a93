"""Training runs of seconds, what they left, and blows that strike them in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sara.config import RunConfig
from sara.reporting.metrics_file import read_records
from tasks.train import TrainedRun

STEPS = 4


def make_config(folder: Path, **changes: Any) -> RunConfig:
    values = {
        "strategy": "sara+dps",
        "output_dir": folder,
        "data": {"train_size": 48, "heldout_size": 4, "sizes": {2: 1.0, 3: 1.0}},
        "allocation": {"groups_per_step": 3, "k": 4, "probe": 2, "increment": 2, "tau_low": "auto"},
        "engine": {"max_new_tokens": 48},
        "learner": {"learning_rate": 1e-3, "warmup_steps": 2},
        "training": {"steps": STEPS, "evaluate_every": 2, "threads": 1},
        "checkpoint": {"every": 1},
        "evaluation": {"k": 2, "bootstrap": 50},
        "tracking": {"uri": f"sqlite:///{folder}/mlflow.db", "experiment": "resume"},
    }
    return RunConfig.model_validate(values | changes)


def outcome(trained: TrainedRun) -> dict:
    """Weights, and every value on disk by metric and step; times only by that they are there."""
    values: dict[tuple[str, int], list[float]] = {}
    for step, _, metrics in read_records(trained.folder / "metrics.jsonl"):
        for name, value in metrics.items():
            values.setdefault((name, step), []).append(0.0 if name.startswith("time/") else value)
    return {"weights": (trained.model_path / "model.safetensors").read_bytes(), "values": values}


def strike(monkeypatch, owner: object, name: str, nth: int, blow: Callable[..., None]) -> list[int]:
    """Call `blow` in the middle of the n-th call of a method; returns a list that grows with the calls."""
    original, calls = getattr(owner, name), []

    def struck(*arguments, **named):
        calls.append(1)
        if len(calls) == nth:
            blow()
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, struck)
    return calls
