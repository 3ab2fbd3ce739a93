"""Reading: a stream of chunks into a log of groups.

Owns what is kept of each rollout (about 30 bytes, never its text) and what is counted as left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sara.replay.cells import (
    NO_LENGTH,
    Where,
    length_values,
    prompt_key,
    reward_values,
    step_label,
    text_lengths,
    to_binary,
)
from sara.replay.columns import Columns
from sara.replay.grouplog import GroupLog, Rows, Skipped, build_log
from sara.replay.readers import CHUNK_ROWS, BrokenLines, Chunk, OnBytes, find_logs, read_chunks


def read_log(
    paths: Sequence[Path],
    mapping: Mapping[str, str] | None = None,
    threshold: float | None = None,
    chunk_rows: int = CHUNK_ROWS,
    on_bytes: OnBytes = lambda count: None,
) -> GroupLog:
    """The finished groups in some files and folders, streamed.

    mapping     role -> column, which wins over the recognised columns
    threshold   rewards of at least this are right; None expects rewards of 0 and 1
    chunk_rows  rows held in memory with their texts at any time
    on_bytes    called as the files are read, to show progress

    Raises ValueError, in one line, on anything that would make a figure wrong.
    """
    files = find_logs(paths)
    collector, broken = _Collector(threshold), BrokenLines()
    for index, path in enumerate(files):
        is_empty = True
        has_steps = True
        for columns, chunk in read_chunks(path, mapping or {}, chunk_rows, broken, on_bytes):
            collector.add(index, path, columns, chunk)
            is_empty, has_steps = False, columns.step is not None
        collector.skipped.empty_files += is_empty
        collector.skipped.files_without_steps += not has_steps
    if collector.skipped.empty_files == len(files):
        raise ValueError(f"{', '.join(map(str, files[:3]))}: no rows")
    collector.skipped.broken_lines, collector.skipped.first_broken = broken.count, broken.first
    rows, unit = collector.finish()
    log = build_log(rows, unit, collector.skipped, layouts=tuple(sorted(collector.layouts)), files=tuple(files))
    if log.num_spanning == log.num_groups:
        raise ValueError(
            f"{_named(files)}: every group has rollouts in several of these files, as if one run were given twice; "
            "expected one run (shards of one run can be joined into one file)"
        )
    return log


class _Collector:
    """Turns chunks into arrays, rows without prompt, step or reward left out and counted."""

    def __init__(self, threshold: float | None) -> None:
        self.threshold = threshold
        self.skipped = Skipped()
        self.layouts: set[str] = set()
        self._labels: dict[Any, int] = {}
        self._kinds: dict[str, str] = {}  # kind of prompt -> where it was met
        self._step_kinds: dict[str, str] = {}
        self._units: dict[str, str] = {}  # unit of length -> where it was met
        self._parts: list[tuple[NDArray, ...]] = []

    def add(self, file: int, path: Path, columns: Columns, chunk: Chunk) -> None:
        self.layouts.add(columns.layout)

        def where(i: int) -> str:
            return f"{path}, row {chunk.rows[i]}"

        has_prompt, prompts = self._prompts(chunk.values[columns.prompt], where)
        has_step, steps = self._steps(chunk, columns, path, where)
        rewards = _rewards(chunk.values[columns.reward], columns.reward, where)
        lengths = self._lengths(chunk, columns, path, where)
        has_reward = ~np.isnan(rewards)
        self.skipped.without_prompt += int(np.count_nonzero(~has_prompt))
        self.skipped.without_step += int(np.count_nonzero(has_prompt & ~has_step))
        self.skipped.without_reward += int(np.count_nonzero(has_prompt & has_step & ~has_reward))
        kept = has_prompt & has_step & has_reward
        is_right = to_binary(rewards[kept], self.threshold, columns.reward, str(path), columns.reward_hint)
        self.skipped.without_length += int(np.count_nonzero(lengths[kept] == NO_LENGTH))
        files = np.full(is_right.size, file, dtype=np.int32)
        self._parts.append((prompts[kept], steps[kept], files, is_right, lengths[kept]))

    def finish(self) -> tuple[Rows, str | None]:
        """All rows, and what lengths are counted in: None where some rollout has none, as no total would be right."""
        unit = next(iter(self._units), None)
        prompts, steps, files, rewards, lengths = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        if unit is None:
            self.skipped.without_length = 0  # the log has no lengths at all
        elif not lengths.any():
            self.skipped.without_length = lengths.size  # a column of zeros says nothing
        if self.skipped.without_length:
            unit = None
        return Rows(prompts, steps, files, rewards, lengths if unit else None, tuple(self._labels)), unit

    def _prompts(self, values: Any, where: Where) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        distinct, index = _distinct(values)
        keys = np.zeros(len(distinct), dtype=np.uint64)
        is_there = np.zeros(len(distinct), dtype=bool)
        for i, value in enumerate(distinct):
            if value is None or value != value:  # NaN
                continue
            place = where(i if index is None else int(np.argmax(index == i)))
            keys[i], kind = prompt_key(value, place)
            is_there[i] = True
            self._agree(self._kinds, kind, place, "prompts are")
        return (is_there, keys) if index is None else (is_there[index], keys[index])

    def _steps(
        self, chunk: Chunk, columns: Columns, path: Path, where: Where
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Indices of steps; without a step column each file is a step."""
        if columns.step is None:
            steps = [str(path)] * len(chunk.rows)
        else:
            steps = [step_label(value, where(i)) for i, value in enumerate(_listed(chunk.values[columns.step]))]
            for step in dict.fromkeys(steps):
                if step is None or step in self._labels:
                    continue
                kind = "numbers" if isinstance(step, int) else "texts"
                self._agree(self._step_kinds, kind, where(steps.index(step)), "steps are")
        codes = [-1 if step is None else self._labels.setdefault(step, len(self._labels)) for step in steps]
        codes = np.array(codes, dtype=np.int32)
        return codes >= 0, codes

    def _lengths(self, chunk: Chunk, columns: Columns, path: Path, where: Where) -> NDArray[np.int64]:
        units: set[str] = set()
        if columns.length is not None:
            lengths, units = length_values(_listed(chunk.values[columns.length]), columns.length, where), {"tokens"}
        elif columns.completion is not None:
            lengths, units = text_lengths(_listed(chunk.values[columns.completion]))
        else:
            lengths = np.full(len(chunk.rows), NO_LENGTH, dtype=np.int64)
        for unit in units:
            self._agree(self._units, unit, str(path), "lengths are")
        return lengths

    def _agree(self, met: dict[str, str], kind: str, place: str, what: str) -> None:
        """Raise ValueError if a second kind turns up in a column: mixed types group and count wrongly."""
        met.setdefault(kind, place)
        if len(met) > 1:
            (first, there), (second, here) = met.items()
            raise ValueError(f"{here}: {what} {second}, but {first} in {there}; expected one kind throughout")


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files[:3])) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _rewards(values: Any, column: str, where: Where) -> NDArray[np.float64]:
    is_number = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
    if isinstance(values, pa.Array) and any(is_kind(values.type) for is_kind in is_number):
        return values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return reward_values(_listed(values), column, where)


def _distinct(values: Any) -> tuple[list[Any], NDArray[np.int64] | None]:
    """Values to hash, and which of them each row has: texts in Parquet are hashed once a chunk, not once a row."""
    is_text = isinstance(values, pa.Array) and (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    )
    if not is_text:
        return _listed(values), None
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _listed(values: Any) -> list[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else values
