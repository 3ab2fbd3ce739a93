"""The outbox of a run: everything that MLflow is to be told, on disk before anything is sent.

Owns the files in a run's folder that say what there is to deliver and how far that has come:

    metrics.jsonl            the values of each step, append-only
    tracking/run.json        which MLflow store and experiment, the run's name and its key
    tracking/queue.jsonl     tags, parameters, artifacts and states, append-only
    tracking/delivered.json  MLflow's id of the run, and the byte up to which each of the two has arrived

Never talks to MLflow.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from sara.reporting.json_lines import JsonLines, read_lines

_FOLDER = "tracking"


class Header(BaseModel):
    """What an MLflow run is made from.

    key         names the run among all others, so that it is found again if a kill came between its making and the
                note of its id
    parent      the folder of the parent run, relative to this run's; or
    parent_id   its id in MLflow
    created_ms  when it began, by this machine's clock
    """

    tracking_uri: str
    experiment: str
    name: str
    key: str
    parent: str | None = None
    parent_id: str | None = None
    created_ms: int


class Cursor(BaseModel):
    """How far the delivery has come: bytes of the queue and of the metrics that MLflow has."""

    run_id: str | None = None
    queue: int = 0
    metrics: int = 0


class Outbox:
    """The files of one run; see the module. Raises ValueError if the folder holds none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metrics_path = folder / "metrics.jsonl"
        self.queue_path = folder / _FOLDER / "queue.jsonl"
        try:
            self.header = Header.model_validate_json(_header_path(folder).read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{folder}: no run was recorded there") from None
        except ValidationError:
            raise ValueError(f"{_header_path(folder)}: not readable; it says which MLflow run this is") from None
        self.cursor = self._read_cursor()

    @classmethod
    def create(cls, folder: Path, tracking_uri: str, experiment: str, name: str, parent: Path | str | None) -> Outbox:
        """The folder's outbox; made if there is none, else as it is. `parent` is a run's folder or its id in MLflow."""
        if not exists(folder):
            header = Header(
                tracking_uri=_located(tracking_uri),
                experiment=experiment,
                name=name,
                key=uuid.uuid4().hex,
                parent=os.path.relpath(parent, folder) if isinstance(parent, Path) else None,
                parent_id=parent if isinstance(parent, str) else None,
                created_ms=time.time_ns() // 1_000_000,
            )
            write_whole(_header_path(folder), header.model_dump_json(indent=2))
        return cls(folder)

    def redirect(self, tracking_uri: str) -> None:
        """Deliver elsewhere. Raises ValueError once the run exists in MLflow."""
        if self.cursor.run_id is not None and _located(tracking_uri) != self.header.tracking_uri:
            raise ValueError(f"{self.folder}: is run {self.cursor.run_id} of {self.header.tracking_uri} already")
        self.header = self.header.model_copy(update={"tracking_uri": _located(tracking_uri)})
        write_whole(_header_path(self.folder), self.header.model_dump_json(indent=2))

    @property
    def parent(self) -> Path | None:
        """The folder of the parent run."""
        return None if self.header.parent is None else Path(os.path.normpath(self.folder / self.header.parent))

    def lock(self) -> FileLock:
        """Held by whoever delivers; dies with its process."""
        return FileLock(self.folder / _FOLDER / "lock", timeout=0)

    def open_queue(self) -> JsonLines:
        return JsonLines(self.queue_path)

    def refresh(self) -> None:
        """Read how far another process has come."""
        self.cursor = self._read_cursor()

    def save_cursor(self, **moved: Any) -> None:
        self.cursor = self.cursor.model_copy(update=moved)
        write_whole(self._cursor_path, self.cursor.model_dump_json())

    def count_pending(self) -> int:
        """Values, and other things, that MLflow does not have yet."""
        records = [line.entry for line in read_lines(self.metrics_path, self.cursor.metrics)]
        others = [line.entry for line in read_lines(self.queue_path, self.cursor.queue)]
        return sum(len(record["metrics"]) for record in records if record) + sum(entry is not None for entry in others)

    def last_status(self) -> str | None:
        """The state that the run was last in: RUNNING, FINISHED, FAILED or KILLED."""
        found = [line.entry for line in read_lines(self.queue_path) if line.entry and line.entry["kind"] == "status"]
        return found[-1]["status"] if found else None

    @property
    def _cursor_path(self) -> Path:
        return self.folder / _FOLDER / "delivered.json"

    def _read_cursor(self) -> Cursor:
        """From the start if it was lost: what has arrived is then found by asking MLflow."""
        try:
            return Cursor.model_validate_json(self._cursor_path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return Cursor()


def exists(folder: Path) -> bool:
    """Whether the folder holds an outbox."""
    return _header_path(folder).exists()


def find_outboxes(root: Path) -> list[Path]:
    """The folders at or below `root` that hold an outbox, parents before children."""
    return sorted(found.parent.parent for found in root.rglob(f"{_FOLDER}/run.json"))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def as_entry(kind: str, **fields: Any) -> Mapping[str, Any]:
    """One line of the queue."""
    return json.loads(json.dumps({"kind": kind} | fields, default=str))


def _header_path(folder: Path) -> Path:
    return folder / _FOLDER / "run.json"


def _located(tracking_uri: str) -> str:
    """The same store from any working directory."""
    from tasks.tracking_store import sqlite_path

    database = sqlite_path(tracking_uri)
    return tracking_uri if database is None else f"{tracking_uri.partition(':')[0]}:///{database}"
