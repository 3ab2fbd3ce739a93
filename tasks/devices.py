"""One GPU, one run: a lock for each GPU of the machine, held while a task trains or evaluates on it.

The lock is a file's, so it needs no server, holds across flows, workers and users of one machine, and goes with
the process that holds it, however that ends: no slot stays taken after a crash. In a container that was given its
own GPU nobody else holds the lock, and it costs nothing.
"""

from __future__ import annotations

import functools
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock, Timeout

from sara.models import find_device

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger(__name__)


@contextmanager
def hold_device(name: str) -> Iterator[None]:
    """Wait until no other run uses the device, then keep it. CPUs are shared freely.

    name   as in `model.device`: auto, cpu, cuda, cuda:1. Raises ValueError for a device that is not there.
    """
    device = find_device(name)
    if device.type != "cuda":
        yield
        return
    with _held(lock_path(device.index or 0, os.environ), str(device)):
        yield


def holds_device(task: Callable[P, R]) -> Callable[P, R]:
    """A task's function, `config` its first argument, that runs with `config.model.device` held."""

    @functools.wraps(task)
    def held(*args: P.args, **kwargs: P.kwargs) -> R:
        config = kwargs["config"] if "config" in kwargs else args[0]
        with hold_device(config.model.device):
            return task(*args, **kwargs)

    return held


def lock_path(index: int, environment: Mapping[str, str]) -> Path:
    """The lock file of a GPU, by its number or UUID on the machine, whatever this process calls it."""
    visible = [part.strip() for part in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    gpu = visible[index] if index < len(visible) else str(index)
    return Path(tempfile.gettempdir()) / f"sara-gpu-{gpu}.lock"


@contextmanager
def _held(path: Path, device: str) -> Iterator[None]:
    lock = FileLock(path, mode=0o666)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        _log.warning("%s is in use by another run (%s is locked); this one waits for it", device, path)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
