"""The cells of a sweep on disk: their folders, the lock on each, and the result file that says a cell is done.

The result file is the truth: a cell with one whose key fits is not run again, whatever any server remembers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from sara.sweeps import SweepCell
from tasks.run_folder import FolderInUse

RESULT = "result.json"


class CellOrder(BaseModel):
    """What a worker needs to run one cell, wherever it runs.

    key             digest of settings, data and code
    data_hashes     content hash by side, which the worker's own preparation has to give too
    sweep_folder    where the sweep keeps its files and its MLflow run's records
    folder          the cell's folder, below it
    """

    sweep: str
    label: str
    key: str
    point: dict[str, Any]
    data_hashes: dict[str, str]
    sweep_folder: Path
    folder: Path


class CellResult(BaseModel):
    """What a finished cell left."""

    key: str
    label: str
    strategy: str
    seed: int
    point: dict[str, Any]
    folder: Path
    model_path: Path
    tracking_uri: str
    mlflow_run_id: str | None
    scores: dict[str, float]
    code_version: str


def cell_folder(sweep_folder: Path, cell: SweepCell, key: str) -> Path:
    """Where a cell keeps its files: its name for readers, its key so that other settings never share it."""
    return sweep_folder / "cells" / f"{cell.label[:120]}-{key[:8]}"


def read_result(folder: Path, key: str) -> CellResult | None:
    """The result of a finished cell; None if there is none, it is half-written or of other settings."""
    try:
        result = CellResult.model_validate_json((folder / RESULT).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return result if result.key == key else None


def write_result(folder: Path, result: CellResult) -> None:
    """Whole or not at all."""
    partial = folder / f"{RESULT}.partial"
    partial.write_text(result.model_dump_json(indent=2), encoding="utf-8")
    partial.replace(folder / RESULT)


def set_aside(folder: Path) -> None:
    """Rename a cell's folder, so that the cell is run anew and the earlier files stay to be looked at."""
    number = 1
    while (old := folder.with_name(f"{folder.name}.old{number}")).exists():
        number += 1
    if folder.exists():
        folder.rename(old)


@contextmanager
def hold(folder: Path, what: str, is_waiting: bool = False) -> Iterator[Path]:
    """Keep a folder for this process; the lock goes when the process does, however it ends.

    what         what the folder is, for the error
    is_waiting   wait for the process that holds it, rather than refuse

    Raises FolderInUse if another process holds it, ValueError if the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".held", timeout=-1 if is_waiting else 0)
        lock.acquire()
    except Timeout:
        raise FolderInUse(
            f"{folder}: {what} is being run by another process; wait for it or use another name"
        ) from None
    except OSError as error:
        raise ValueError(f"{folder}: cannot be used as a folder of results ({error.strerror})") from None
    try:
        yield folder
    finally:
        lock.release()


def read_scores(folder: Path) -> dict[str, float] | None:
    """Scores that an earlier cell left in a base model's folder; None if there are none."""
    path = folder / "scores.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_scores(folder: Path, scores: dict[str, float]) -> None:
    """Whole or not at all."""
    partial = folder / "scores.json.partial"
    partial.write_text(json.dumps(scores), encoding="utf-8")
    partial.replace(folder / "scores.json")


def cell_tags(order: CellOrder) -> dict[str, str]:
    """Tags by which a cell's MLflow run is found."""
    swept = {f"sara.swept.{key}": json.dumps(value) for key, value in order.point.items()}
    return {"sara.sweep": order.sweep, "sara.cell": order.label, "sara.cell_key": order.key, **swept}
