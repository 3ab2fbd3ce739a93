"""A pretrained model is evaluated on arithmetic, from the prompt in its chat template to the table in MLflow."""

from __future__ import annotations

import json

import pytest
from mlflow import MlflowClient

from flows.commands.evaluate import read_settings

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_pretrained_model_is_evaluated_on_arithmetic(smollm2, tmp_path):
    from flows.evaluate import evaluate

    overrides = [
        f"output_dir={tmp_path}",
        f"tracking.uri=sqlite:///{tmp_path}/mlflow.db",
        *("data.heldout_size=4", "data.levels=[1,1]", "engine.name=hf", "evaluation.bootstrap=200"),
        "training.threads=1",
    ]
    options = {
        "model.path": str(smollm2),
        "data.heldout": "arithmetic",
        "evaluation.k": 2,
        "evaluation.temperature": 0.6,
        "evaluation.max_new_tokens": 48,
    }
    result = evaluate(read_settings(None, overrides, options))
    rows = [json.loads(line) for line in result.responses.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 4 * 2 and len({row["id"] for row in rows}) == 4
    for row in rows:
        assert row["subject"] and row["level"] == 1 and 1 <= row["tokens"] <= 48
        assert row["finish_reason"] == ("length" if row["tokens"] == 48 else "stop")
        assert row["reward"] == 0 or row["answer"] is not None
        assert "<|im_" not in row["text"]
    scores = result.scores
    assert scores["eval/accuracy"] == pytest.approx(sum(row["reward"] for row in rows) / len(rows))
    assert scores["eval/no_answer"] == pytest.approx(sum(row["answer"] is None for row in rows) / len(rows))
    assert scores["eval/missing"] == 0
    for subject in {row["subject"] for row in rows}:
        rewards = [row["reward"] for row in rows if row["subject"] == subject]
        assert scores[f"eval/subject/{subject}"] == pytest.approx(sum(rewards) / len(rewards))
    run = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db").get_run(result.mlflow_run_id)
    assert run.data.metrics["eval/accuracy"] == scores["eval/accuracy"]
    assert run.data.params["evaluation.temperature"] == "0.6"
