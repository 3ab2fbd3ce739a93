"""The bar on a run's page: it is there, and no run waits for the server that shows it."""

from __future__ import annotations

import threading

from prefect import flow
from prefect.artifacts import Artifact
from prefect.testing.utilities import prefect_test_harness

from tasks import artifacts
from tasks.artifacts import ProgressArtifact


def test_the_last_state_of_a_bar_is_on_the_page():
    @flow
    def work() -> None:
        bar = ProgressArtifact("training-bar", "steps")
        for done in range(1, 5):
            bar.show(done, 4, f"step {done} of 4")

    with prefect_test_harness(server_startup_timeout=120):
        work()
        shown = Artifact.get("training-bar")
    assert (shown.type, float(shown.data), shown.description) == ("progress", 100.0, "step 4 of 4")


def test_a_server_that_hangs_holds_up_no_step(monkeypatch):
    never, told = threading.Event(), []

    def hang(**_):
        told.append("made")
        never.wait(60)

    monkeypatch.setattr(artifacts, "create_progress_artifact", hang)
    monkeypatch.setattr(artifacts, "is_in_a_run", lambda: True)
    monkeypatch.setattr(artifacts, "UPDATE_EVERY_S", 0.0)
    monkeypatch.setattr(artifacts, "LAST_WAIT_S", 0.1)
    bar = ProgressArtifact("bar", "steps")
    for done in range(1, 100):
        bar.show(done, 99, "never told")
    assert told == ["made"] and not never.is_set()
    never.set()


def test_outside_a_run_nothing_is_made():
    bar = ProgressArtifact("bar", "steps")
    bar.show(1, 1, "done")
    assert bar._telling is None
