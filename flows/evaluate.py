"""One evaluation by itself: score a model on the held-out problems."""

from __future__ import annotations

from prefect import flow

from sara.config import RunConfig
from tasks.evaluate import evaluate_model
from tasks.mlflow_runs import evaluation_run
from tasks.prepare import prepare_data
from tasks.run_folder import claim_folder


@flow(name="evaluate", flow_run_name="evaluate {config.name}")
def evaluate(config: RunConfig) -> dict[str, float]:
    """Score `config.model` on the held-out problems; returns the scores by metric name."""
    with claim_folder(config.output_dir / config.name) as folder:
        data = prepare_data(config, folder / "data", is_training=False)
        with evaluation_run(config, data, folder):
            return evaluate_model(config, data, folder, step=0, folder=folder)
