"""Prepared sets on disk: what was kept of a set that was read or made, for every later run that asks for the same.

Owns the key of a set (its source's content, the settings that decide it, the version of the code) and the form of the
files. Nothing is taken from here whose content does not have the hash that was written with it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sara.code_version import code_version
from sara.datasets.base import Dataset, Problem, Split
from sara.datasets.rows import read_file
from sara.datasets.selecting import LeftOut, Side

if TYPE_CHECKING:
    from sara.config import DataConfig

_log = logging.getLogger(__name__)


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


def read_problems(dataset: Dataset, path: Path) -> list[Problem]:
    """The problems that `write_problems` wrote, whatever file, hub or generator they came from."""
    return [dataset.read(row, place) for place, row in read_file(path, dataset.fields, {})]


def _as_json(problem: Problem) -> str:
    return json.dumps({"id": problem.id, "text": problem.text, **problem.reference}, sort_keys=True)


def take_or_prepare(folder: Path, key: str, dataset: Dataset, prepare: Callable[[], Side]) -> Side:
    """The side that is kept under a key; prepared now, and kept, where none is or what is there is damaged."""
    side = _take(folder / key, dataset)
    if side is None:
        side = prepare()
        if side.problems:
            _keep(side, folder / key)
    return side


def _take(path: Path, dataset: Dataset) -> Side | None:
    try:
        card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        problems = read_problems(dataset, path.with_suffix(".jsonl"))
        is_whole = content_hash(problems) == card["content_hash"]
        problems = [replace(p, place=place) for p, place in zip(problems, card["places"], strict=True)]
        left_out = [LeftOut(**item) for item in card["left_out"]]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        _log.warning("%s: not what was written there; prepared anew", path.with_suffix(".jsonl"))
        return None
    return Side(problems, left_out)


def _keep(side: Side, path: Path) -> None:
    """The problems, then the card that vouches for them: runs that prepare the same set at once write the same."""
    card = {
        "content_hash": content_hash(side.problems),
        "places": [problem.place for problem in side.problems],
        "left_out": [asdict(item) for item in side.left_out],
    }
    for suffix, write in (
        (".jsonl", lambda target: write_problems(side.problems, target)),
        (".json", lambda target: target.write_text(json.dumps(card), encoding="utf-8")),
    ):
        unfinished = path.with_name(f"{path.name}{suffix}.{os.getpid()}-{threading.get_ident()}")
        write(unfinished)
        unfinished.replace(path.with_suffix(suffix))


def key_of(config: DataConfig, split: Split, dataset: Dataset) -> str:
    """What decides the problems of one side before a number of them is chosen, as 32 hex digits."""
    settings = config.model_dump(mode="json")
    other = "heldout" if split == "train" else "train"
    decides = {name: value for name, value in settings.items() if not name.startswith((other, "apart_from"))}
    path = getattr(config, f"{split}_path")
    if path is not None:
        decides[f"{split}_path"] = _digest(path)
    if path is not None or dataset.generate is None:
        del decides[f"{split}_size"]
    revision = dataset.hub and (dataset.hub.name, decides[f"{split}_revision"] or dataset.hub.revision)
    text = json.dumps([split, decides, revision, code_version()], sort_keys=True)
    return f"{settings[split]}-{split}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _digest(path: Path) -> str:
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
