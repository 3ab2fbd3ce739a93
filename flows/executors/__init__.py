"""Where the cells of a sweep run: one file for each executor, one registry."""

from __future__ import annotations

from flows.executors.base import Executor, Outcome
from flows.executors.local import Local
from flows.executors.ray import Ray
from flows.executors.workpool import WorkPool

EXECUTORS: dict[str, type[Executor]] = {"local": Local, "workpool": WorkPool, "ray": Ray}

__all__ = ["EXECUTORS", "Executor", "Outcome"]
