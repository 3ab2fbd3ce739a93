"""Prefect artifacts of a flow run: progress of long work, and the way to its MLflow run.

Outside a flow run nothing is made, so that a task called alone starts no server; a server that has gone
away costs a warning, never the work.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import PrefectException

from sara.config import TrackingConfig
from tasks.tracking import connect, mlflow_run_id

UPDATE_EVERY_S = 5.0
LAST_WAIT_S = 3.0
_log = logging.getLogger(__name__)


def is_in_a_run() -> bool:
    """Whether a flow or task run is there to hang artifacts on."""
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def artifact_key(*parts: object) -> str:
    """Prefect allows [a-z0-9-] in a key."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(str(part) for part in parts).lower()).strip("-") or "unnamed"


class ProgressArtifact:
    """A bar on the run's page, told at most every few seconds, and in a thread: what is shown never waits for a server.

    While the server does not answer, what would have been told is left out; only the last is waited for, a moment.
    """

    def __init__(self, key: str, description: str) -> None:
        self._told_at = time.monotonic()
        self._id: UUID | None = None
        self._telling: threading.Thread | None = None
        if is_in_a_run():
            self._tell(lambda: create_progress_artifact(progress=0.0, key=key, description=description))

    def show(self, done: int, total: int, description: str, *, is_last: bool = False) -> None:
        """`done` of `total`, and a line that says more."""
        is_last = is_last or done == total
        if is_last and self._telling is not None:
            self._telling.join(LAST_WAIT_S)
        waited_s = time.monotonic() - self._told_at
        is_busy = self._telling is not None and self._telling.is_alive()
        if self._id is not None and not is_busy and (is_last or waited_s >= UPDATE_EVERY_S):
            self._told_at = time.monotonic()
            percent = 100.0 * done / max(total, 1)
            self._tell(lambda: update_progress_artifact(self._id, progress=percent, description=description))
            if is_last:
                self._telling.join(LAST_WAIT_S)

    def _tell(self, call: Callable[[], UUID]) -> None:
        def tell() -> None:
            self._id = _quietly(call) or self._id

        # The thread sees the flow run that this one is in.
        self._telling = threading.Thread(target=copy_context().run, args=(tell,), daemon=True)
        self._telling.start()


class SweepProgress:
    """How many cells of a sweep have ended, and a table of how; a context manager."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self._key = artifact_key("sweep", name)
        self._total, self._done = total, done
        self._rows: list[str] = []
        self._bar = ProgressArtifact(f"{self._key}-progress", f"Cells of the sweep {name}")

    def __enter__(self) -> SweepProgress:
        self._bar.show(self._done, self._total, f"{self._done} of {self._total} cells were finished", is_last=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._rows and is_in_a_run():
            table = "\n".join(["| cell | ended | why |", "|---|---|---|", *self._rows])
            _quietly(lambda: create_markdown_artifact(markdown=table, key=f"{self._key}-cells"))

    def show(self, cell: str, status: str, error: str) -> None:
        """One cell has ended."""
        self._done += 1
        self._rows.append(f"| {cell} | {status} | {error.replace('|', '/')} |")
        _log.info("%d of %d cells: %s %s", self._done, self._total, cell, status)
        self._bar.show(self._done, self._total, f"{self._done} of {self._total} cells have ended", is_last=True)


class RunLink:
    """The way to a folder's MLflow run, shown once, as soon as MLflow knows the run."""

    def __init__(self, tracking: TrackingConfig, folder: Path, what: str) -> None:
        self._tracking, self._folder, self._what = tracking, folder, what
        self._is_shown = not is_in_a_run()

    def show(self) -> None:
        """Call it now and then; it does nothing once the link is there."""
        if not self._is_shown and mlflow_run_id(self._folder) is not None:
            self._is_shown = True
            publish_run_link(self._tracking, self._folder, self._what)


def publish_run_link(tracking: TrackingConfig, folder: Path, what: str) -> None:
    """A link to the MLflow run recorded in a folder, or how to open it where MLflow has no page of its own."""
    run_id = mlflow_run_id(folder) if is_in_a_run() else None
    if run_id is None:
        return
    if tracking.uri.startswith("http"):
        experiment_id = connect(tracking.uri, tracking.experiment).experiment_id
        page = f"{tracking.uri.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"
        _quietly(lambda: create_link_artifact(link=page, link_text=f"MLflow run of this {what}", key="mlflow-run"))
    else:
        text = f"MLflow run `{run_id}` in `{tracking.uri}`; `sara ui` opens it."
        _quietly(lambda: create_markdown_artifact(markdown=text, key="mlflow-run"))


def _quietly(call: Callable[[], UUID]) -> UUID | None:
    try:
        return call()
    except (httpx.HTTPError, PrefectException) as error:
        _log.warning("Prefect did not take an artifact: %s", error)
        return None
