"""Data sets: from a configuration to the problems to train on and to be evaluated on.

To add one: a module beside this with a `DATASET`, and a line in DATASETS.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sara.datasets import aime24, arithmetic, countdown, countdown34, math500, math_train
from sara.datasets.base import Dataset, Field, Problem, Split
from sara.datasets.rows import read_file, read_hub
from sara.datasets.selecting import Side, apart_from, choose, without_duplicates, without_faulty

if TYPE_CHECKING:
    from sara.config import DataConfig

__all__ = [
    "DATASETS",
    "Problem",
    "Side",
    "content_hash",
    "get_dataset",
    "load_apart",
    "load_prepared",
    "load_problems",
    "load_side",
    "load_split",
    "write_problems",
]

DATASETS: dict[str, Dataset] = {
    "aime24": aime24.DATASET,
    "arithmetic": arithmetic.DATASET,
    "countdown": countdown.DATASET,
    "countdown34": countdown34.DATASET,
    "math": math_train.DATASET,
    "math500": math500.DATASET,
}
"""Name in `data.train` and `data.heldout` -> data set."""

HUB = "hub"
"""Stands for a file in `data.apart_from`: read the set from the hub, or make it."""


def get_dataset(name: str) -> Dataset:
    """The data set of that name; raises ValueError with the nearest name for an unknown one."""
    if name in DATASETS:
        return DATASETS[name]
    matches = difflib.get_close_matches(name.casefold(), DATASETS, n=1, cutoff=0.4)
    known = f"did you mean {matches[0]!r}?" if matches else f"expected one of {', '.join(DATASETS)}"
    raise ValueError(f"data set {name!r} is unknown; {known}")


def load_problems(config: DataConfig) -> tuple[list[Problem], list[Problem]]:
    """(training problems, held-out problems), none on both sides; raises ValueError as `load_side` does."""
    heldout = load_side(config, "heldout")
    return load_apart(config, heldout.problems).problems, heldout.problems


def load_apart(config: DataConfig, heldout: Sequence[Problem]) -> Side:
    """The training side without what is asked in the held-out one or in a set of `data.apart_from`.

    Raises ValueError as `load_side` does.
    """
    side = apart_from(load_side(config, "train"), heldout)
    for name, file in config.apart_from.items():
        path = None if file == HUB else Path(file)
        usual = {"heldout_columns": {}, "heldout_revision": None, "heldout_size": None}
        other = config.model_copy(update={"heldout": name, "heldout_path": path, **usual})
        side = apart_from(side, load_side(other, "heldout").problems)
    return side


def load_split(config: DataConfig, split: Split) -> list[Problem]:
    """The problems of one side alone; raises ValueError as `load_side` does."""
    return load_side(config, split).problems


def load_side(config: DataConfig, split: Split) -> Side:
    """The problems of one side, and what was left out: repeated ones, and those that no answer can be scored against.

    Raises ValueError for a data file that is missing, empty or faulty or gives one id to two problems, for a public
    set that cannot be read, and where nothing is left.
    """
    dataset = get_dataset(getattr(config, split))
    side = without_faulty(without_duplicates(list(_read(config, split, dataset)), f"data.{split}"), dataset.fault)
    if not side.problems:
        raise ValueError(f"data.{split}: no problem that can be scored is left; {side.summary()}")
    is_made = dataset.generate is not None and getattr(config, f"{split}_path") is None
    return side if is_made else choose(side, getattr(config, f"{split}_size"), f"{split}/{config.seed}")


def _read(config: DataConfig, split: Split, dataset: Dataset) -> Iterator[Problem]:
    path, columns = getattr(config, f"{split}_path"), getattr(config, f"{split}_columns")
    if path is not None:
        _check_columns(columns, dataset.fields, f"data.{split}_columns")
        for place, row in read_file(path, dataset.fields, columns):
            yield replace(dataset.read(row, place), place=place)
    elif dataset.generate is not None:
        yield from dataset.generate(config, split)
    else:
        revision = getattr(config, f"{split}_revision")
        for place, row in read_hub(dataset.hub, split, revision, dataset.fields, f"data.{split}_path"):
            problem = replace(dataset.read(row, place), place=place)
            if dataset.is_of_side(problem, split):
                yield problem


def _check_columns(columns: Mapping[str, str], fields: Mapping[str, Field], setting: str) -> None:
    for name in columns:
        if name not in fields:
            raise ValueError(f"{setting}: {name!r} is no field of the data set; its fields are {', '.join(fields)}")


def load_prepared(config: DataConfig, split: Split, path: Path) -> list[Problem]:
    """The problems of one side that `write_problems` wrote, whatever file, hub or generator they came from."""
    dataset = get_dataset(getattr(config, split))
    return [dataset.read(row, place) for place, row in read_file(path, dataset.fields, {})]


def content_hash(problems: Sequence[Problem]) -> str:
    """SHA-256 of the problems' ids, texts and references, in order, as 64 hex digits."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update((_as_json(problem) + "\n").encode())
    return digest.hexdigest()


def write_problems(problems: Sequence[Problem], path: Path) -> None:
    """Write one JSON object a line: id, text and the fields of the reference."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_as_json(problem) + "\n" for problem in problems), encoding="utf-8")


def _as_json(problem: Problem) -> str:
    return json.dumps({"id": problem.id, "text": problem.text, **problem.reference}, sort_keys=True)
