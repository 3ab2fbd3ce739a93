"""Data sets: from a configuration to the problems to train on and to be evaluated on.

To add one: a module beside this, a function below it, a line in DATASETS.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sara.datasets.base import Problem
from sara.datasets.countdown import Split, countdown_problem, generate_countdown, read_countdown_jsonl

if TYPE_CHECKING:
    from sara.config import DataConfig

__all__ = ["DATASETS", "Problem", "content_hash", "load_prepared", "load_problems", "load_split", "write_problems"]


def _countdown(config: DataConfig, split: Split) -> list[Problem]:
    path = config.train_path if split == "train" else config.heldout_path
    if path is not None:
        return read_countdown_jsonl(path)
    generated = generate_countdown(
        count=config.train_size if split == "train" else config.heldout_size,
        seed=config.seed,
        split=split,
        sizes=config.sizes,
        number_range=config.number_range,
        target_range=config.target_range,
        max_intermediate=config.max_intermediate,
    )
    return [countdown_problem(*problem) for problem in generated]


DATASETS: dict[str, Callable[[DataConfig, Split], list[Problem]]] = {"countdown": _countdown}
"""Name in `data.train` and `data.heldout` -> loader of one side."""


def load_problems(config: DataConfig) -> tuple[list[Problem], list[Problem]]:
    """(training problems, held-out problems); raises ValueError as `load_split` does."""
    return load_split(config, "train"), load_split(config, "heldout")


def load_split(config: DataConfig, split: Split) -> list[Problem]:
    """The problems of one side; ids are distinct.

    Raises ValueError for a data file that is missing, empty or faulty, or that repeats an id.
    """
    problems = DATASETS[config.train if split == "train" else config.heldout](config, split)
    repeated = [problem_id for problem_id, count in Counter(p.id for p in problems).items() if count > 1]
    if repeated:
        raise ValueError(f"data.{split}: problem {repeated[0]} stands in it more than once; expected distinct ids")
    return problems


def load_prepared(config: DataConfig, split: Split, path: Path) -> list[Problem]:
    """The problems of one side that `write_problems` wrote, whatever file or generator they came from."""
    return load_split(config.model_copy(update={f"{split}_path": path}), split)


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
