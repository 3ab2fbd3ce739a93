"""One training run by itself: prepare the data, train, evaluate."""

from __future__ import annotations

from prefect import flow

from sara.config import RunConfig
from tasks.evaluate import evaluate_model
from tasks.prepare import prepare_data
from tasks.run_folder import claim_folder
from tasks.train import TrainedRun, train


@flow(name="train", flow_run_name="train {config.strategy} seed {config.seed}")
def train_and_evaluate(config: RunConfig) -> TrainedRun:
    """Train one strategy with one seed and score the model that it ends with."""
    with claim_folder(config.output_dir / config.name) as folder:
        data = prepare_data(config, folder / "data")
        run = config.in_folder(folder).model_copy(update={"name": "training"})
        trained = train(run, data)
        evaluate_model(run.with_model(trained.model_path), data, trained.folder, trained.steps, trained.folder)
    return trained
