"""Run folders: where one run keeps its files, and the lock that keeps a second run out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_LOCK = ".lock"


class FolderInUse(ValueError):
    """Another run is writing to the folder."""


@contextmanager
def claim_folder(folder: Path) -> Iterator[Path]:
    """Hold an empty folder for one run: `folder`, or `folder-2`, `folder-3`, ... where earlier results lie.

    Earlier results are never touched. Raises FolderInUse if another run, in this process or any other,
    is writing to one of these folders, and ValueError if the folder cannot be made.
    """
    number = 1
    while True:
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        with _locked(candidate):
            if not _has_results(candidate):
                yield from _held(candidate)
                return
        number += 1


def is_in_use(folder: Path) -> bool:
    """Whether a run holds the folder now."""
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        with lock:
            return False
    except Timeout:
        return True


def _held(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    finally:
        if not _has_results(folder):  # it failed before it wrote anything: leave no trace
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise FolderInUse(
            f"{folder}: in use by another run; wait for it or choose another name or output_dir"
        ) from None
    except OSError as error:
        raise ValueError(f"{folder}: cannot be used as an output folder ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def _has_results(folder: Path) -> bool:
    return any(entry.name != _LOCK for entry in folder.iterdir())
