"""Prefect task: make or read the problems of an experiment and write them where every later task reads them."""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel

from sara.config import RunConfig
from sara.datasets import content_hash, load_problems, write_problems
from sara.models import load_reader
from sara.prompts import encode_prompts
from tasks.retries import is_worth_a_retry


class PreparedData(BaseModel):
    """Where the problems lie, how many there are and the hash of their content."""

    train_path: Path
    heldout_path: Path
    train_size: int
    heldout_size: int
    train_hash: str
    heldout_hash: str


@task(
    name="prepare-data",
    tags=["data"],
    retries=2,
    retry_delay_seconds=5,
    retry_condition_fn=is_worth_a_retry,
    cache_policy=NO_CACHE,
    task_run_name="prepare {config.data.train}",
)
def prepare_data(config: RunConfig, folder: Path) -> PreparedData:
    """Write `train.jsonl` and `heldout.jsonl` into the folder.

    Raises ValueError if the data cannot be used: a faulty file, fewer problems than a step wants groups, a
    prompt that the model cannot take.
    """
    train, heldout = load_problems(config.data)
    encode_prompts(load_reader(config.model), [*train, *heldout], config.engine.max_new_tokens)
    if len(train) < config.allocation.groups_per_step:
        raise ValueError(
            f"allocation.groups_per_step = {config.allocation.groups_per_step}; "
            f"expected at most {len(train)}, the number of training problems"
        )
    prepared = PreparedData(
        train_path=folder / "train.jsonl",
        heldout_path=folder / "heldout.jsonl",
        train_size=len(train),
        heldout_size=len(heldout),
        train_hash=content_hash(train),
        heldout_hash=content_hash(heldout),
    )
    write_problems(train, prepared.train_path)
    write_problems(heldout, prepared.heldout_path)
    return prepared
