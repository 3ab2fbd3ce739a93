"""Prefect task: make or read the problems of an experiment and write them where every later task reads them."""

from __future__ import annotations

import json
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel

from sara.config import RunConfig
from sara.datasets import Problem, content_hash, load_prepared, load_split, write_problems
from sara.engines import require_engine
from sara.learner.setup import require_room, require_same_vocabulary
from sara.models import find_device, load_reader
from sara.prompts import encode_prompts
from tasks.retries import is_worth_a_retry
from tasks.tracking import require_store


class PreparedSplit(BaseModel):
    """One side of the data: where it lies, how many problems it has and the hash of their content."""

    path: Path
    size: int
    content_hash: str


class PreparedData(BaseModel):
    """The problems of an experiment; without a training side where nothing is trained."""

    train: PreparedSplit | None
    heldout: PreparedSplit


def data_hashes(data: PreparedData) -> dict[str, str]:
    """Content hash of each side that there is."""
    sides = {"train": data.train, "heldout": data.heldout}
    return {name: side.content_hash for name, side in sides.items() if side is not None}


def read_prepared(config: RunConfig, folder: Path) -> PreparedData:
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
def prepare_data(config: RunConfig, folder: Path, is_training: bool = True) -> PreparedData:
    """Write `train.jsonl`, unless nothing is trained, and `heldout.jsonl` into the folder.

    Raises ValueError, before anything is written, if the data cannot be used: a faulty file, fewer problems
    than a step wants groups, a prompt that the model cannot take, problems on both sides. And TrackingError if
    MLflow cannot be reached.
    """
    find_device(config.model.device)
    require_engine(config.engine)
    reader = load_reader(config.model).within(config.engine.max_model_len)
    sides = {split: load_split(config.data, split) for split in (("train", "heldout") if is_training else ("heldout",))}
    prompt_ids = {split: encode_prompts(reader, sides[split], config.engine.max_new_tokens) for split in sides}
    if is_training:
        require_room(config, prompt_ids["train"])
        require_same_vocabulary(config, reader)
    if is_training and len(sides["train"]) < config.allocation.groups_per_step:
        raise ValueError(
            f"allocation.groups_per_step = {config.allocation.groups_per_step}; "
            f"expected at most {len(sides['train'])}, the number of training problems"
        )
    if is_training:
        _require_disjoint(sides["train"], sides["heldout"])
    require_store(config.tracking)  # nothing is written where nothing can be recorded
    written = {split: _write(problems, folder / f"{split}.jsonl") for split, problems in sides.items()}
    return PreparedData(train=written.get("train"), heldout=written["heldout"])


def _require_disjoint(train: list[Problem], heldout: list[Problem]) -> None:
    """Refuse problems that stand on both sides: by numbers in any order and target, whatever their ids."""
    shared = {_content(problem) for problem in train} & {_content(problem) for problem in heldout}
    if shared:
        raise ValueError(f"data: {len(shared)} held-out problems stand among the training problems too; expected none")


def _content(problem: Problem) -> str:
    reference = {name: sorted(value) if isinstance(value, list) else value for name, value in problem.reference.items()}
    return json.dumps(reference, sort_keys=True)


def _write(problems: list[Problem], path: Path) -> PreparedSplit:
    write_problems(problems, path)
    return PreparedSplit(path=path, size=len(problems), content_hash=content_hash(problems))


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("prepare")
