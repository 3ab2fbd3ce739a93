"""Data sets: from a configuration to the problems to train on and to be evaluated on.

To add one: a module beside this with a `DATASET`, and a line in DATASETS.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sara.datasets import aime24, arithmetic, countdown, countdown34, math500, math_train
from sara.datasets.base import Dataset, Field, Problem, Split
from sara.datasets.prepared import content_hash, key_of, read_problems, take_or_prepare, write_problems
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


def load_apart(config: DataConfig, heldout: Sequence[Problem], cache: Path | None = None) -> Side:
    """The training side without what is asked in the held-out one or in a set of `data.apart_from`.

    cache   as for `load_side`
    Raises ValueError as `load_side` does.
    """
    side = apart_from(load_side(config, "train", cache), heldout)
    for name, file in config.apart_from.items():
        path = None if file == HUB else Path(file)
        usual = {"heldout_columns": {}, "heldout_revision": None, "heldout_size": None}
        other = config.model_copy(update={"heldout": name, "heldout_path": path, **usual})
        side = apart_from(side, load_side(other, "heldout", cache).problems)
    return side


def load_split(config: DataConfig, split: Split) -> list[Problem]:
    """The problems of one side alone; raises ValueError as `load_side` does."""
    return load_side(config, split).problems


def load_side(config: DataConfig, split: Split, cache: Path | None = None) -> Side:
    """The problems of one side, and what was left out: repeated ones, and those that no answer can be scored against.

    cache   folder of prepared sets, to take this one from or to keep it in; without one nothing is written
    Raises ValueError for a data file that is missing, empty or faulty or gives one id to two problems, for a public
    set that cannot be read, and where nothing is left.
    """
    dataset = get_dataset(getattr(config, split))

    def prepare() -> Side:
        return without_faulty(without_duplicates(list(_read(config, split, dataset)), f"data.{split}"), dataset.fault)

    side = prepare() if cache is None else take_or_prepare(cache, key_of(config, split, dataset), dataset, prepare)
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
    return read_problems(get_dataset(getattr(config, split)), path)
