"""A table reaches MLflow once, whatever is delivered again."""

from __future__ import annotations

import json

import mlflow
from mlflow import MlflowClient

from sara.config import TrackingConfig
from tasks.delivery import Courier
from tasks.outbox import Outbox
from tasks.tracking import open_run

ROWS = [{"id": "a", "reward": 1, "text": "é \\boxed{2}"}, {"id": "b", "reward": 0, "text": None}]


def test_a_table_is_what_the_file_says_and_is_not_doubled_when_it_is_delivered_again(tmp_path, monkeypatch):
    tracking = TrackingConfig(uri=f"sqlite:///{tmp_path}/mlflow.db", experiment="tables", wait_s=120)
    path = tmp_path / "run" / "responses.jsonl"
    with open_run(tracking, tmp_path / "run", "run") as run:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        run.log_table(path, "evaluation/responses.json")
    outbox = Outbox(tmp_path / "run")
    outbox.save_cursor(queue=0)  # as after a kill that came before the note of what had arrived
    Courier(outbox).deliver()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking.uri)
    mlflow.set_tracking_uri(tracking.uri)
    client = MlflowClient(tracking.uri)
    experiment = client.get_experiment_by_name("tables").experiment_id
    table = client.load_table(experiment, "evaluation/responses.json", [run.id])
    assert table["id"].tolist() == ["a", "b"] and table["reward"].tolist() == [1, 0]
    assert table["text"][0] == "é \\boxed{2}" and table["text"].isna()[1]
