"""Delivers what runs have recorded and MLflow does not have yet, after those runs have ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import Timeout

from sara.config import RunConfig
from tasks.delivery import Courier
from tasks.outbox import Outbox, as_entry, find_outboxes
from tasks.run_folder import is_in_use
from tasks.tracking_store import TrackingError

_log = logging.getLogger(__name__)


class Synced(NamedTuple):
    """What became of one run's records.

    delivered  values and other things that were sent
    pending    those that wait still
    trouble    why, in one line; empty if none waits
    """

    folder: Path
    delivered: int
    pending: int
    trouble: str = ""


def sync(roots: Sequence[Path], tracking_uri: str | None = None) -> Iterator[Synced]:
    """Deliver every run at or below the folders, parents first.

    tracking_uri   deliver there instead of where the run was to be recorded; only for runs that MLflow does not
                   have yet
    A run whose process was killed is marked KILLED. Raises ValueError for a folder without runs.
    """
    found = []
    for root in roots:
        folders = find_outboxes(root)
        if not folders:
            raise ValueError(f"{root}: no run was recorded there; name the folder of a run or one that holds runs")
        found += folders
    return (_sync_one(folder, tracking_uri) for folder in dict.fromkeys(found))


def is_delivered(folder: Path, wait_s: float) -> bool:
    """Deliver every run at or below the folder, waiting for MLflow up to `wait_s`; whether it has all of them."""
    deadline = time.monotonic() + wait_s
    while waiting := [synced for synced in map(_sync_one, find_outboxes(folder)) if synced.trouble]:
        if time.monotonic() > deadline:
            _log.warning(
                "no report yet, records wait for MLflow: %s; then `sara sync %s` and `sara report` make it",
                *(waiting[0].trouble, folder),
            )
            return False
        time.sleep(1.0)
    return True


def default_root() -> Path:
    """Where runs are kept if nothing else is said."""
    return RunConfig().output_dir


def _sync_one(folder: Path, tracking_uri: str | None = None) -> Synced:
    outbox = Outbox(folder)
    try:
        with outbox.lock():
            outbox.refresh()
            before = outbox.count_pending()
            try:
                if tracking_uri is not None:
                    outbox.redirect(tracking_uri)
                _mark_if_killed(outbox)
                delivered = Courier(outbox).deliver()
            except ValueError as error:
                pending = outbox.count_pending()
                return Synced(folder, max(before - pending, 0), pending, str(error))
    except Timeout:
        return Synced(folder, 0, outbox.count_pending(), "its own run delivers it")
    return Synced(folder, delivered, 0)


def _mark_if_killed(outbox: Outbox) -> None:
    """A process that was killed could not say so."""
    if outbox.last_status() != "RUNNING" or is_in_use(outbox.folder):
        return
    queue = outbox.open_queue()
    queue.append(as_entry("status", status="KILLED", time_ms=time.time_ns() // 1_000_000))
    queue.close()


__all__ = ["Synced", "TrackingError", "default_root", "is_delivered", "sync"]
