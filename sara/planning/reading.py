"""Reads what is known of a pool of prompts: a built-in name, a histogram of success rates, or a pilot log.

    saturated              a population of `sara.simulation.mixtures.POPULATIONS`
    rates.csv              columns rate, count
    rates.json             [{"rate": 0.25, "count": 12}, ...] or {"0.25": 12, ...}
    pilot.jsonl            {"prompt": ..., "successes": 3, "n": 8} a line; a prompt's lines are added up

A faulty value is a ValueError that says in which file and line; a prompt without a rollout is left out and counted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sara.planning.pilot import Counts, fit_rates
from sara.simulation.mixtures import POPULATIONS, RateMixture


@dataclass(frozen=True)
class Pool:
    """What is known of the prompts.

    mixture   distribution of their success rates
    prompts   how many there are; None if the source does not say
    origin    where this comes from, in words
    pilot     counts that the mixture was fitted to; None if it was given
    left_out  prompts of the pilot without a rollout
    """

    mixture: RateMixture
    prompts: int | None
    origin: str
    pilot: Counts | None = None
    left_out: int = 0


def read_pool(source: str) -> Pool:
    """What `source`, a built-in name or a file, says of the prompts. Raises ValueError in one line."""
    if source in POPULATIONS:
        return Pool(POPULATIONS[source], None, f"built-in population {source!r}")
    path = Path(source)
    reader = {".csv": _read_csv, ".json": _read_json, ".jsonl": _read_pilot}.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(POPULATIONS)
        raise ValueError(f"{source}: expected one of {known}, or a file that ends in .csv, .json or .jsonl")
    try:
        return reader(path)
    except FileNotFoundError:
        raise ValueError(f"{source}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{source}: cannot be read: {error}") from None


def _read_csv(path: Path) -> Pool:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        names = [name.strip() for name in rows.fieldnames or ()]
        if not {"rate", "count"} <= set(names):
            found = ", ".join(names) or "nothing"
            raise ValueError(f"{path}: expected columns rate and count; found {found}")
        rows.fieldnames = names
        bins = [_bin(f"{path}: line {rows.line_num}", row["rate"], row["count"]) for row in rows]
    return _histogram(path, bins)


def _read_json(path: Path) -> Pool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno}: not valid JSON: {error.msg}") from None
    if isinstance(content, dict):
        content = [{"rate": rate, "count": count} for rate, count in content.items()]
    if not isinstance(content, list) or not all(
        isinstance(row, dict) and {"rate", "count"} <= set(row) for row in content
    ):
        raise ValueError(f'{path}: expected [{{"rate": 0.25, "count": 12}}, ...] or {{"0.25": 12, ...}}')
    return _histogram(path, [_bin(f"{path}: entry {i}", row["rate"], row["count"]) for i, row in enumerate(content, 1)])


def _bin(where: str, rate: Any, count: Any) -> tuple[float, float]:
    return _number(where, "rate", rate, 1), _number(where, "count", count, np.inf)


def _number(where: str, name: str, value: Any, most: float) -> float:
    try:
        number = float("" if isinstance(value, bool) or value is None else value)
    except (TypeError, ValueError):
        number = np.nan
    if not (0 <= number <= most and np.isfinite(number)):
        allowed = "a number in [0, 1]" if most == 1 else "a number of at least 0"
        raise ValueError(f"{where}: {name} = {value!r}; expected {allowed}")
    return number


def _histogram(path: Path, bins: list[tuple[float, float]]) -> Pool:
    rates, counts = np.array(bins, dtype=float).reshape(-1, 2).T
    if not counts.sum() > 0:
        raise ValueError(f"{path}: no prompt is counted; expected at least one count above 0")
    is_counts = bool((counts == np.floor(counts)).all())
    prompts = int(counts.sum()) if is_counts else None  # shares of prompts do not say how many there are
    return Pool(RateMixture.from_histogram(rates, counts), prompts, f"histogram of {len(bins)} rates in {path}")


def _read_pilot(path: Path) -> Pool:
    successes: dict[str, int] = {}
    drawn: dict[str, int] = {}
    for where, row in _rows(path):
        n, s = (_whole(where, name, row[name]) for name in ("n", "successes"))
        if s > n:
            raise ValueError(f"{where}: successes = {s} of n = {n}; expected at most n")
        prompt = json.dumps(row["prompt"], sort_keys=True)
        successes[prompt], drawn[prompt] = successes.get(prompt, 0) + s, drawn.get(prompt, 0) + n
    pairs = np.array([(drawn[prompt], successes[prompt]) for prompt in drawn], dtype=np.int64).reshape(-1, 2)
    pairs, left_out = pairs[pairs[:, 0] > 0], int((pairs[:, 0] == 0).sum())
    if not pairs.size:
        raise ValueError(f"{path}: no prompt with a rollout; expected lines with prompt, successes and n")
    results, prompts = np.unique(pairs, axis=0, return_counts=True)
    counts = Counts(results[:, 0], results[:, 1], prompts.astype(float))
    origin = f"pilot of {len(pairs)} prompts and {pairs[:, 0].sum()} rollouts in {path}"
    return Pool(fit_rates(counts), None, origin, counts, left_out)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) for each line that is not blank, streamed."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{where}: not valid JSON: {error.msg}") from None
            found = sorted(row) if isinstance(row, dict) else []
            if not {"prompt", "successes", "n"} <= set(found):
                listed = ", ".join(found) or "none"
                raise ValueError(f"{where}: expected fields prompt, successes and n; found {listed}")
            yield where, row


def _whole(where: str, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{where}: {name} = {value!r}; expected a whole number of at least 0")
    return value
