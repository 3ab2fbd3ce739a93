"""The use of the machine is recorded beside the metrics of a run, and costs a run nothing where MLflow is away."""

from __future__ import annotations

import threading
import time

import mlflow
import pytest

from sara.config import TrackingConfig
from tasks.system_metrics import watched
from tasks.tracking import connect, open_run


@pytest.fixture
def often():
    mlflow.set_system_metrics_sampling_interval(0.1)
    mlflow.set_system_metrics_samples_before_logging(1)
    yield
    mlflow.set_system_metrics_sampling_interval(None)
    mlflow.set_system_metrics_samples_before_logging(None)


def test_processor_and_memory_stand_under_system_metrics(tmp_path, often):
    tracking = TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db", experiment="tests")
    client = connect(tracking.uri, "tests").client
    with open_run(tracking, tmp_path / "run", "watched") as run:

        def seen() -> set[str]:
            return set(client.get_run(run.id).data.metrics) if run.id else set()

        with watched(run, tracking.uri):
            deadline = time.monotonic() + 120
            while not seen() and time.monotonic() < deadline:
                time.sleep(0.1)
        assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"} <= seen()
    assert client.get_run(run.id).info.status == "FINISHED"


def test_a_run_that_mlflow_does_not_know_goes_unwatched_and_leaves_no_thread(tmp_path):
    tracking = TrackingConfig(uri="http://127.0.0.1:9", experiment="tests", when_absent="queue", wait_s=0)
    with open_run(tracking, tmp_path / "run", "unknown") as run, watched(run, tracking.uri):
        assert run.id is None
        assert "system-metrics" in {thread.name for thread in threading.enumerate()}
    assert "system-metrics" not in {thread.name for thread in threading.enumerate()}
