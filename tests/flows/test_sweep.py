"""A sweep in this process, with real Prefect and MLflow: kept cells, failed cells, going on, refreshing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sara.sweeps import SweepConfig
from tasks.cells import RESULT, hold, read_result
from tasks.comparisons import Selection, load_selection

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def swept(small) -> SweepConfig:
    """Two cells that train, and two whose completions would not fit into the model's context."""
    values = small.model_dump() | {"name": "swept", "strategies": ["sara"]}
    return SweepConfig.model_validate(values | {"grid": {"allocation.k": [2, 4], "engine.max_new_tokens": [48, 500]}})


def run(config: SweepConfig):
    from flows.commands.sweep import start_sweep

    return start_sweep(config)


def training_runs(config: SweepConfig) -> list:
    client = MlflowClient(config.tracking.uri)
    experiment = client.get_experiment_by_name(config.tracking.experiment)
    return client.search_runs([experiment.experiment_id], "tags.`sara.kind` = 'training'")


def results(config: SweepConfig) -> dict[str, dict]:
    folder = config.output_dir / config.name / "cells"
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{RESULT}"))}


def test_a_sweep_reports_what_failed_keeps_what_finished_and_goes_on(swept):
    first = run(swept)
    assert [cell.status for cell in first.cells] == ["finished", "failed", "finished", "failed"]
    errors = [cell.error for cell in first.cells if cell.error]
    assert all("expected at most 512 together, the model's context" in error for error in errors)
    assert all("\n" not in error for error in errors)
    kept = results(swept)
    assert sorted(result["point"]["allocation.k"] for result in kept.values()) == [2, 4]
    runs = training_runs(swept)
    assert len(runs) == 2
    assert {run.data.tags["mlflow.parentRunId"] for run in runs} == {first.mlflow_run_id}
    tags = runs[0].data.tags
    assert tags["sara.sweep"] == "swept" and tags["sara.strategy"] == "sara" and tags["sara.host"]
    assert {run.data.tags["sara.cell_key"] for run in runs} == {result["key"] for result in kept.values()}

    again = run(swept)
    assert [cell.status for cell in again.cells] == ["was finished", "failed", "was finished", "failed"]
    assert again.mlflow_run_id == first.mlflow_run_id
    assert results(swept) == kept and len(training_runs(swept)) == 2

    wider = swept.model_copy(update={"seeds": (0, 1), "grid": {"allocation.k": [4], "engine.max_new_tokens": [48]}})
    assert [cell.status for cell in run(wider).cells] == ["was finished", "finished"]
    assert len(training_runs(swept)) == 3

    comparison = load_selection(swept.tracking.uri, swept.tracking.experiment, Selection(sweep="swept"))
    assert comparison.strategies() == ("sara · k=2", "sara · k=4")
    assert [len(comparison.of(name)) for name in comparison.strategies()] == [1, 2]
    assert comparison.base["eval/accuracy"] == pytest.approx(kept_base(swept))

    page = (swept.output_dir / "swept" / "report" / "index.html").read_text(encoding="utf-8")
    assert "SARA, k=2" in page and "SARA, k=4" in page


def kept_base(config: SweepConfig) -> float:
    (scores,) = (config.output_dir / config.name / "bases").glob("*/scores.json")
    return json.loads(scores.read_text())["eval/accuracy"]


def test_refreshing_runs_cells_again_and_keeps_the_earlier_files(swept):
    one = swept.model_copy(update={"grid": {"allocation.k": [2], "engine.max_new_tokens": [48]}})
    run(one)
    (before,) = training_runs(one)
    assert [cell.status for cell in run(one.model_copy(update={"refresh": True})).cells] == ["finished"]
    assert len(training_runs(one)) == 2
    (folder,) = (one.output_dir / "swept" / "cells").glob("*.old1")
    assert json.loads((folder / RESULT).read_text())["mlflow_run_id"] == before.info.run_id


def test_a_half_written_or_foreign_result_is_no_result(tmp_path):
    assert read_result(tmp_path, "key") is None
    (tmp_path / RESULT).write_text('{"key": "key", "lab')
    assert read_result(tmp_path, "key") is None


def test_a_sweep_that_runs_already_is_refused(swept):
    folder = Path(swept.output_dir) / "swept"
    with hold(folder, "this sweep"), pytest.raises(ValueError, match="this sweep is being run by another process"):
        run(swept)
