"""Prefect task: one training run, from a configuration to a trained model and its MLflow run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import torch
from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel

from sara.config import RunConfig
from sara.datasets import load_prepared
from sara.failures import RunFailure
from sara.learner import TrainingDiverged
from sara.models import load_policy
from sara.training import StepReport, Trainer
from tasks.artifacts import RunLink
from tasks.checkpointing import Checkpointer, describe_changes
from tasks.devices import holds_device
from tasks.mlflow_runs import log_inputs, training_tags
from tasks.prepare import PreparedData
from tasks.progress import TrainingProgress
from tasks.resuming import forget_result, keep_config, keep_result, kept_result, require_same_settings
from tasks.retries import is_retry, is_worth_a_retry
from tasks.run_folder import claim_folder, one_line_if_disk_is_full
from tasks.stopping import Stopped, StopSwitch
from tasks.system_metrics import watched
from tasks.tracking import Run, open_run


class TrainedRun(BaseModel):
    """What a training run left: its MLflow run (None: not reached yet), its folder and the trained model in it.

    resumed_at   the step that it went on from when it was last started: 0 if it began, `steps` if it had finished
    """

    mlflow_run_id: str | None
    folder: Path
    model_path: Path
    steps: int
    resumed_at: int = 0


@task(
    name="train",
    tags=["gpu"],
    retries=2,
    retry_delay_seconds=10,
    retry_condition_fn=is_worth_a_retry,
    cache_policy=NO_CACHE,
    task_run_name="train {config.title}",
)
@holds_device
def train(
    config: RunConfig,
    data: PreparedData,
    parent: Path | str | None = None,
    tags: dict[str, str] | None = None,
    resume: bool = False,
    allow: Sequence[str] = (),
) -> TrainedRun:
    """Train with one strategy and seed; every step goes to `metrics.jsonl` and to MLflow.

    parent   folder, or id in MLflow, of the run that this one is part of
    tags     more tags of the MLflow run, such as a sweep's
    resume   go on with the newest run in the folder, if there is one; a retry always does
    allow    settings that are meant to differ from those that the run was started with

    Told to stop (SIGTERM, SIGINT), it drops the round under way, saves and raises Stopped.
    """
    torch.set_num_threads(config.training.threads or torch.get_num_threads())
    with (
        claim_folder(config.output_dir / config.name, goes_on=resume or is_retry()) as folder,
        one_line_if_disk_is_full(folder),
        StopSwitch() as switch,
    ):
        changed = require_same_settings(config, folder, allow)
        finished = kept_result(TrainedRun, folder)
        if finished is not None and finished.steps == config.training.steps:
            return finished.model_copy(update={"folder": folder, "resumed_at": finished.steps})
        all_tags = training_tags(config, data) | (tags or {})
        with switch.interruptible():
            trainer = _make_trainer(config, data)
        with (
            closing(trainer),
            open_run(config.tracking, folder, config.title, all_tags, config.model_dump(mode="json"), parent) as run,
        ):
            log_inputs(run, config, data)
            with watched(run, config.tracking.uri) if config.tracking.system_metrics else nullcontext():
                trained = _train(trainer, run, data, changed, switch)
            _upload(run, trained.model_path, config.tracking.upload_mib)
        keep_result(trained, folder)
    return trained


def _upload(run: Run, model: Path, most_mib: int) -> None:
    """Keep a small model among the artifacts; of a large one, say where it lies."""
    size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    if size <= most_mib * 2**20:
        run.log_artifact(model, "model")
    run.set_tags({"sara.model_path": str(model.absolute())})


def _make_trainer(config: RunConfig, data: PreparedData) -> Trainer:
    problems = [load_prepared(config.data, side, getattr(data, side).path) for side in ("train", "heldout")]
    return Trainer(config, load_policy(config.model), *problems)


def _train(
    trainer: Trainer, run: Run, data: PreparedData, changed: dict[str, tuple[Any, Any]], switch: StopSwitch
) -> TrainedRun:
    """All steps that are left, from the newest checkpoint on, and the model that they end with."""
    config, folder = trainer.config, run.folder
    checkpointer = Checkpointer(trainer, run, data)
    start = checkpointer.restore()
    _require_steps_to_take(config, start)
    forget_result(folder)
    run.log_artifact(keep_config(config, folder))
    run.set_tags(describe_changes(changed, start))
    try:
        _train_and_record(trainer, run, checkpointer, switch)
    except TrainingDiverged as error:
        kept = _save_model(trainer, folder / "last_good_model")
        raise TrainingDiverged(f"step {trainer.step_count}: {error}, kept in {kept}") from None
    except RunFailure:
        if not trainer.is_torn:
            checkpointer.save()
        raise
    except Stopped as stop:
        if not stop.is_torn:
            checkpointer.save()
        raise stop.after(checkpointer.saved_at, folder) from None
    path = _save_model(trainer, folder / "model")
    steps = config.training.steps
    return TrainedRun(mlflow_run_id=run.id, folder=folder, model_path=path, steps=steps, resumed_at=start)


def _train_and_record(trainer: Trainer, run: Run, checkpointer: Checkpointer, switch: StopSwitch) -> None:
    """All steps, and the evaluations between them; that of the last step is a task of its own."""
    steps = trainer.config.training.steps
    link = RunLink(trainer.config.tracking, run.folder, "training run")
    with TrainingProgress(trainer.config.strategy, steps, trainer.step_count) as progress:
        while True:
            score = _evaluate_if_due(trainer, run, switch)
            checkpointer.save_if_due(score, is_last=trainer.step_count >= steps)
            if trainer.step_count >= steps:
                return
            report = _take_step(trainer, switch)
            run.log(report.metrics, step=report.step)
            progress.show(report.metrics)
            link.show()


def _take_step(trainer: Trainer, switch: StopSwitch) -> StepReport:
    """A step that a signal may interrupt as long as it has changed no weight; it is then as if it had not begun."""
    before = trainer.position()
    try:
        with switch.interruptible(lambda: trainer.is_collecting):
            return trainer.step()
    except Stopped as stop:
        if not stop.is_torn:
            trainer.rewind(before)
        raise
    except RunFailure:
        if trainer.is_collecting:
            trainer.rewind(before)
        raise


def _evaluate_if_due(trainer: Trainer, run: Run, switch: StopSwitch) -> float | None:
    """The score of this step, measured unless an earlier attempt has; None if there is to be none."""
    settings, step = trainer.config.training, trainer.step_count
    is_due = settings.evaluate_every and step and step % settings.evaluate_every == 0
    if not is_due or step >= settings.steps:
        return None
    if run.earlier("eval/accuracy", step) is None:
        with switch.interruptible():
            scores = trainer.evaluate().metrics()
        run.log(scores, step=step)
        return scores["eval/accuracy"]
    return run.earlier("eval/accuracy", step)


def _require_steps_to_take(config: RunConfig, step: int) -> None:
    if step > config.training.steps:
        raise ValueError(f"training.steps = {config.training.steps}; the run has taken {step} steps already")


def _save_model(trainer: Trainer, path: Path) -> Path:
    """Write the model beside its place and rename it, so that a half-written one is never found there."""
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    trainer.save_model(partial)
    old = path.with_name(path.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    partial.rename(path)
    shutil.rmtree(old, ignore_errors=True)
    return path


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("train")
