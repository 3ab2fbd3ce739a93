"""One evaluation by itself: score a model on the held-out problems."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from pydantic import BaseModel

from flows.environment import default_tracking
from flows.naming import tag_run
from sara.config import RunConfig
from tasks.evaluate import evaluate_model, responses_path
from tasks.mlflow_runs import evaluation_run
from tasks.prepare import prepare_data
from tasks.run_folder import claim_folder
from tasks.tracking import mlflow_run_id


class EvaluationResult(BaseModel):
    """The scores by metric name, and where the graded responses and the records are.

    mlflow_run_id   None as long as MLflow has not been reached
    """

    scores: dict[str, float]
    responses: Path
    mlflow_run_id: str | None


@flow(name="evaluate", flow_run_name="evaluate {config.model.path} on {config.data.heldout}")
def evaluate(config: RunConfig) -> EvaluationResult:
    """Score `config.model`, any model or checkpoint, on the held-out problems."""
    tag_run("evaluate", f"data:{config.data.heldout}")
    config = default_tracking(config)
    with claim_folder(config.output_dir / config.name) as folder:
        data = prepare_data(config, folder / "data", is_training=False)
        with evaluation_run(config, data, folder):
            scores = evaluate_model(config, data, folder, step=0, folder=folder)
        run_id = mlflow_run_id(folder)
    return EvaluationResult(scores=scores, responses=responses_path(folder, 0), mlflow_run_id=run_id)
