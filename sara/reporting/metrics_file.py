"""The local, append-only record of a run's metrics: one JSON object a line.

It is written before anything is sent to a tracking server, so a run killed at any moment keeps
every value it logged.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sara.reporting.comparison import Series
from sara.reporting.json_lines import JsonLines, read_lines

Record = tuple[int, int, dict[str, float]]  # step, time in ms, metrics


class MetricsFile:
    """Appends to `path`; each line reaches the operating system before `append` returns."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)

    def append(self, step: int, time_ms: int, metrics: Mapping[str, float]) -> None:
        """Raises OSError if the values do not fit; the file is then as it was before."""
        # JSON has no NaN or infinity: they are written as the strings that float() reads.
        values = {name: x if math.isfinite(x) else str(x) for name, x in metrics.items()}
        self._lines.append({"step": step, "time_ms": time_ms, "metrics": values})

    def to_disk(self) -> None:
        """Returns once every value would survive a power cut."""
        self._lines.to_disk()

    def close(self) -> None:
        self._lines.close()


def as_record(entry: Mapping[str, Any]) -> Record:
    """Step, time and metrics of one line's object."""
    return entry["step"], entry["time_ms"], {name: float(x) for name, x in entry["metrics"].items()}


def read_records(path: Path) -> Iterator[Record]:
    """Every record in the order written; lines torn by a kill are skipped."""
    return (as_record(line.entry) for line in read_lines(path) if line.entry is not None)


def read_metrics(path: Path) -> dict[str, Series]:
    """Metric name -> series; a step logged more than once keeps its last value."""
    points: dict[str, list[tuple[int, float]]] = {}
    for step, _, metrics in read_records(path):
        for name, value in metrics.items():
            points.setdefault(name, []).append((step, value))
    return {name: Series.from_points(found) for name, found in points.items()}
