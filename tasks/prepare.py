"""Prefect task: make or read the problems of an experiment and write them where every later task reads them."""

from __future__ import annotations

import logging
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel

from sara.config import ExperimentConfig
from sara.datasets import Side, content_hash, load_prepared, write_problems
from sara.engines import require_engine
from sara.models import find_device, load_reader
from sara.preparation import prepare_problems
from tasks.retries import is_worth_a_retry
from tasks.tracking import require_store

_log = logging.getLogger(__name__)

PREPARED = ".prepared"
"""Folder beside the runs' own, with the sets that they share."""


class PreparedSplit(BaseModel):
    """One side of the data: where it lies, how many problems it has, the hash of their content, and what was left out.

    left_out   reason (`sara.datasets.selecting.REASONS`) -> how many problems; empty where that is not known any more
    """

    path: Path
    size: int
    content_hash: str
    left_out: dict[str, int] = {}


class PreparedData(BaseModel):
    """The problems of an experiment; without a training side where nothing is trained."""

    train: PreparedSplit | None
    heldout: PreparedSplit


def data_hashes(data: PreparedData) -> dict[str, str]:
    """Content hash of each side that there is."""
    sides = {"train": data.train, "heldout": data.heldout}
    return {name: side.content_hash for name, side in sides.items() if side is not None}


def read_prepared(config: ExperimentConfig, folder: Path) -> PreparedData:
    """What `prepare_data` wrote to a folder before. Raises ValueError if there are no held-out problems in it."""
    sides = {}
    for side in ("train", "heldout"):
        path = folder / f"{side}.jsonl"
        if path.exists():
            problems = load_prepared(config.data, side, path)
            sides[side] = PreparedSplit(path=path, size=len(problems), content_hash=content_hash(problems))
    if "heldout" not in sides:
        raise ValueError(f"{folder}: no heldout.jsonl in it; expected a folder that `sara task prepare` wrote")
    return PreparedData(train=sides.get("train"), heldout=sides["heldout"])


@task(
    name="prepare-data",
    tags=["data"],
    retries=2,
    retry_delay_seconds=5,
    retry_condition_fn=is_worth_a_retry,
    cache_policy=NO_CACHE,
    task_run_name="prepare {config.data.train}",
)
def prepare_data(config: ExperimentConfig, folder: Path, is_training: bool = True) -> PreparedData:
    """Write `train.jsonl`, unless nothing is trained, and `heldout.jsonl` into the folder.

    Problems that cannot be used are left out and counted: repeated ones, those without an answer to score against,
    and of the training problems those that are also held out or whose prompt is too long. Raises ValueError, before
    anything is written, if the data cannot be used: a faulty file, fewer problems than a step wants groups, a prompt
    that the model cannot take. And TrackingError if MLflow cannot be reached.
    """
    find_device(config.model.device)
    require_engine(config.engine)
    reader = load_reader(config.model).within(config.engine.max_model_len)
    problems = prepare_problems(config, reader, is_training, cache=config.output_dir / PREPARED)
    for name, side in problems.sides.items():
        if side.left_out:
            _log.warning("data.%s: %s", name, side.summary())
    require_store(config.tracking)  # nothing is written where nothing can be recorded
    written = {name: _write(side, folder / f"{name}.jsonl") for name, side in problems.sides.items()}
    return PreparedData(train=written.get("train"), heldout=written["heldout"])


def _write(side: Side, path: Path) -> PreparedSplit:
    write_problems(side.problems, path)
    return PreparedSplit(
        path=path,
        size=len(side.problems),
        content_hash=content_hash(side.problems),
        left_out=side.counts(),
    )


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("prepare")
