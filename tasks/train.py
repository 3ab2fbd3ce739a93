"""Prefect task: one training run, from a configuration to a trained model and its MLflow run."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import torch
from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel

from sara.config import RunConfig
from sara.datasets import load_prepared
from sara.learner import TrainingDiverged
from sara.models import load_policy
from sara.training import Trainer
from tasks.devices import holds_device
from tasks.mlflow_runs import training_tags
from tasks.prepare import PreparedData
from tasks.progress import TrainingProgress
from tasks.run_folder import claim_folder
from tasks.tracking import Run, open_run


class TrainedRun(BaseModel):
    """What a training run left: its MLflow run (None: not reached yet), its folder and the trained model in it."""

    mlflow_run_id: str | None
    folder: Path
    model_path: Path
    steps: int


@task(
    name="train",
    tags=["gpu"],
    cache_policy=NO_CACHE,
    task_run_name="train {config.title}",
)
@holds_device
def train(
    config: RunConfig, data: PreparedData, parent: Path | str | None = None, tags: dict[str, str] | None = None
) -> TrainedRun:
    """Train with one strategy and seed; every step goes to `metrics.jsonl` and to MLflow.

    tags   more tags of the MLflow run, such as a sweep's

    Not retried: a run is long, and one that failed half-way should be looked at.
    """
    torch.set_num_threads(config.training.threads or torch.get_num_threads())
    train_problems = load_prepared(config.data, "train", data.train.path)
    heldout_problems = load_prepared(config.data, "heldout", data.heldout.path)
    policy = load_policy(config.model)
    trainer = Trainer(config, policy, train_problems, heldout_problems)
    settings = config.model_dump(mode="json")
    with (
        closing(trainer),
        claim_folder(config.output_dir / config.name) as folder,
        open_run(
            config.tracking,
            folder,
            name=config.title,
            tags=training_tags(config, data) | (tags or {}),
            params=settings,
            parent=parent,
        ) as run,
    ):
        (folder / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
        run.log_artifact(folder / "config.json")
        try:
            _train_and_record(trainer, run)
        except TrainingDiverged as error:
            kept = _save_model(trainer, folder / "last_good_model")
            raise TrainingDiverged(f"step {trainer.step_count}: {error}, kept in {kept}") from None
        model_path = _save_model(trainer, folder / "model")
    return TrainedRun(mlflow_run_id=run.id, folder=folder, model_path=model_path, steps=config.training.steps)


def _train_and_record(trainer: Trainer, run: Run) -> None:
    """All steps, and the evaluations between them; that of the last step is a task of its own."""
    settings = trainer.config.training
    with TrainingProgress(trainer.config.strategy, settings.steps) as progress:
        for step in range(1, settings.steps + 1):
            report = trainer.step()
            run.log(report.metrics, step=step)
            progress.show(report.metrics)
            is_due = settings.evaluate_every and step % settings.evaluate_every == 0
            if is_due and step < settings.steps:
                run.log(trainer.evaluate().metrics(), step=step)


def _save_model(trainer: Trainer, path: Path) -> Path:
    """Write the model beside its place and rename it, so that a half-written one is never found there."""
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    trainer.save_model(partial)
    partial.rename(path)
    return path


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("train")
