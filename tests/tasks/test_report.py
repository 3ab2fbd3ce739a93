"""Reports through real MLflow and real Prefect, from a small comparison that was recorded once."""

import json

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.testing.utilities import prefect_test_harness

from sara.config import TrackingConfig
from sara.reporting import rows_as_json, summary_table
from tasks.report import make_report, write_comparison_report
from tasks.tracking import Tracker, connect, hold_run, load_comparison, open_run, reopen_run
from tests.sara.reporting import worked

EXPERIMENT = "Paper runs: MATH/8"


@pytest.fixture(scope="module")
def tracker(tmp_path_factory) -> Tracker:
    folder = tmp_path_factory.mktemp("store")
    tracking = TrackingConfig(uri=f"sqlite:///{folder}/mlflow.db", experiment=EXPERIMENT)
    with hold_run(tracking, folder, "worked", {"sara.kind": "comparison"}, {}):
        with reopen_run(folder, 15) as parent:
            parent.log(worked.BASE, step=0)
        for run in (*worked.DS, *worked.SARA):
            tags = {"sara.kind": "training", "sara.strategy": run.strategy, "sara.seed": str(run.seed)}
            name = f"{run.strategy}-{run.seed}"
            with open_run(tracking, folder / name, "run", tags, parent=folder) as child:
                for name, series in run.metrics.items():
                    for step, value in zip(*series, strict=True):
                        child.log({name: value}, step)
    return connect(tracking.uri, EXPERIMENT)


def test_the_report_is_written_and_kept_with_the_comparison_s_run(tracker, tmp_path):
    comparison, page = write_comparison_report(tracker.tracking_uri, EXPERIMENT, tmp_path / "out")
    html = page.read_text(encoding="utf-8")
    assert "SARA trained the same number of groups as DS with 25% fewer rollouts" in html
    kept = {file.path for file in tracker.client.list_artifacts(comparison.run_id, "report")}
    assert kept == {f"report/{path.name}" for path in page.parent.iterdir()}


def test_the_table_read_from_mlflow_is_the_table_that_was_logged(tracker):
    read = summary_table(load_comparison(tracker.tracking_uri, EXPERIMENT))
    assert rows_as_json(read) == rows_as_json(summary_table(worked.comparison(*worked.DS, *worked.SARA)))


def test_outside_a_flow_the_task_s_function_needs_no_server(tracker, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.report.create_table_artifact", lambda **_: pytest.fail("an artifact was made"))
    page = make_report.fn(tracker.tracking_uri, EXPERIMENT, tmp_path / "out")
    assert page == tmp_path / "out" / "index.html" and page.exists()


def test_inside_a_flow_the_table_becomes_an_artifact(tracker, tmp_path):
    @flow
    def report() -> str:
        return str(make_report(tracker.tracking_uri, EXPERIMENT, tmp_path / "out"))

    with prefect_test_harness(server_startup_timeout=120):
        assert report() == str(tmp_path / "out" / "index.html")
        with get_client(sync_client=True) as client:
            named = ArtifactFilter(key=ArtifactFilterKey(like_="comparison-"))
            artifacts = {a.key: a for a in client.read_artifacts(artifact_filter=named)}
    table = artifacts["comparison-paper-runs-math-8"]
    rows = json.loads(table.data)
    assert [row["strategy"] for row in rows] == ["base model", "DS", "SARA"]
    assert rows[2]["rollouts, % of DS"] == "75%"
    assert "25% fewer rollouts" in table.description
    assert "| SARA | 2 |" in artifacts["comparison-paper-runs-math-8-summary"].data
