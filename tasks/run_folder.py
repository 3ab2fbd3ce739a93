"""Run folders: where one run keeps its files, the lock that keeps a second run out, and what a full disk is called."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sara.failures import RunFailure

_LOCK = ".lock"
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class FolderInUse(ValueError):
    """Another run is writing to the folder."""


@contextmanager
def claim_folder(folder: Path, goes_on: bool = False) -> Iterator[Path]:
    """Hold an empty folder for one run: `folder`, or `folder-2`, `folder-3`, ... where earlier results lie.

    goes_on   hold the newest of them that has results instead, to go on with its run; if none has, an empty one

    Earlier results are never touched otherwise. Raises FolderInUse if another run, in this process or any other,
    is writing to one of these folders, and ValueError if the folder cannot be made.
    """
    if goes_on:
        newest = newest_folder(folder)
        with _locked(newest):
            yield from _held(newest)
            return
    number = 1
    while True:
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        with _locked(candidate):
            if not _has_results(candidate):
                yield from _held(candidate)
                return
        number += 1


@contextmanager
def one_line_if_disk_is_full(folder: Path) -> Iterator[None]:
    """Turns errors of a disk that takes no more into a RunFailure that names the file, or else the run's folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        raise RunFailure(_not_written(error.filename or folder, error.strerror)) from error
    except SafetensorError as error:
        if "I/O error" not in str(error):
            raise
        raise RunFailure(_not_written(folder, str(error))) from error


def _not_written(path: Path | str, reason: str) -> str:
    return f"{path}: could not be written ({reason}); what was recorded and saved before is intact"


def newest_folder(folder: Path) -> Path:
    """The last of `folder`, `folder-2`, `folder-3`, ... that has results; `folder` itself if none has."""
    newest, number = folder, 2
    while (following := folder.with_name(f"{folder.name}-{number}")).is_dir() and _has_results(following):
        newest, number = following, number + 1
    return newest


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
