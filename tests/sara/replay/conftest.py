"""Logs for the tests: in memory, and as the files that trainers write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sara.replay import GroupLog
from sara.replay.grouplog import Rows, Skipped, build_log


@pytest.fixture(scope="session")
def make_log() -> Callable[..., GroupLog]:
    """A log of groups given as rewards; a group is of its own prompt and of step 0 unless said otherwise."""

    def make(
        groups: Sequence[Sequence[int]],
        lengths: Sequence[Sequence[int]] | None = None,
        steps: Sequence[int] | None = None,
        prompts: Sequence[int] | None = None,
    ) -> GroupLog:
        sizes = [len(group) for group in groups]
        prompts = np.arange(len(groups)) if prompts is None else np.asarray(prompts)
        steps = np.zeros(len(groups), dtype=np.int64) if steps is None else np.asarray(steps)
        rows = Rows(
            prompts=np.repeat(prompts.astype(np.uint64), sizes),
            steps=np.repeat(steps, sizes),
            files=np.zeros(sum(sizes), dtype=np.int64),
            rewards=np.concatenate(groups).astype(np.int8),
            lengths=None if lengths is None else np.concatenate(lengths).astype(np.int64),
            step_labels=tuple(range(int(steps.max()) + 1)),
        )
        return build_log(rows, "tokens" if lengths is not None else None, Skipped())

    return make


@pytest.fixture(scope="session")
def write_jsonl() -> Callable[[Path, Iterable[dict]], Path]:
    def write(path: Path, rows: Iterable[dict]) -> Path:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
