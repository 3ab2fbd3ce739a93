"""A comparison that is interrupted goes on: what has finished is kept, what was under way goes on, the rest is run."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from mlflow import MlflowClient
from prefect.exceptions import CancelledRun

from flows.compare import ComparisonResult, compare
from sara.config import CompareConfig
from sara.engines.huggingface import HuggingFaceEngine
from sara.learner import Learner

pytestmark = pytest.mark.usefixtures("prefect_server")


def outcome(folder: Path) -> dict[str, object]:
    """Weights of every run, and every value on disk but times, doubled ones included."""
    weights = {path.parts[-3]: path.read_bytes() for path in folder.glob("*/model/model.safetensors")}
    values = []
    for path in sorted(folder.rglob("metrics.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        values += [
            (str(path.relative_to(folder)), record["step"], name, value)
            for record in records
            for name, value in record["metrics"].items()
            if not name.startswith("time/")
        ]
    return {"weights": weights, "values": sorted(values)}


def count_calls(monkeypatch, owner: type, name: str, nth: int = 0, blow=None) -> list[None]:
    """A list that grows with the calls of a method; the n-th of them begins with a blow."""
    original, calls = getattr(owner, name), []

    def counted(*arguments, **named):
        calls.append(None)
        if len(calls) == nth:
            blow()
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)
    return calls


def states(config: CompareConfig) -> dict[str, str]:
    client = MlflowClient(config.tracking.uri)
    experiment = client.get_experiment_by_name(config.tracking.experiment)
    return {run.info.run_name: run.info.status for run in client.search_runs([experiment.experiment_id])}


def test_an_interrupted_comparison_ends_as_one_left_alone(small, monkeypatch):
    def go_on(config: CompareConfig, *allow: str) -> ComparisonResult:
        return compare(config, resume=True, allow=allow)

    alone = outcome(compare(small.model_copy(update={"name": "alone"})).folder)
    with monkeypatch.context() as patched:
        count_calls(patched, Learner, "update", 3, lambda: signal.raise_signal(signal.SIGTERM))  # of the second run
        with pytest.raises(CancelledRun, match=r"stopped by SIGTERM; step 1 is saved in .*sara-seed0"):
            compare(small)
    finished = small.output_dir / "small" / "ds-seed0" / "metrics.jsonl"
    kept, since = finished.read_bytes(), finished.stat().st_mtime_ns

    result = go_on(small)
    assert outcome(result.folder) == alone and set(alone["weights"]) == {"ds-seed0", "sara-seed0"}
    assert (finished.read_bytes(), finished.stat().st_mtime_ns) == (kept, since)
    assert result.report.exists()

    generated = count_calls(monkeypatch, HuggingFaceEngine, "generate")
    assert go_on(small) == result and not generated, "a finished comparison was run again"
    more = small.model_copy(update={"strategies": ("ds", "sara", "uniform")})
    with pytest.raises(ValueError, match=r"strategies was .*--allow strategies"):
        go_on(more)
    assert go_on(more, "strategies").folder == result.folder
    assert generated and len(outcome(result.folder)["weights"]) == 3
    assert {key: value for key, value in outcome(result.folder)["weights"].items() if "uniform" not in key} == alone[
        "weights"
    ]
    names = {name: status for name, status in states(small).items() if name != "alone"}
    assert set(names.values()) == {"FINISHED"} and len(names) == 4
