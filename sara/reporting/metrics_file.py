"""The local, append-only record of a run's metrics: one JSON object a line.

It is written before anything is sent to a tracking server, so a run killed at any moment keeps
every value it logged. Never read by the training itself.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from sara.reporting.comparison import Series

Record = tuple[int, int, dict[str, float]]  # step, time in ms, metrics


class MetricsFile:
    """Appends to `path`; each line reaches the operating system before `append` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and path.stat().st_size > 0 and path.read_bytes()[-1:] != b"\n"
        self._file = path.open("a", encoding="utf-8")
        if torn:  # killed in mid-line: what follows must not be glued to the half line
            self._file.write("\n")

    def append(self, step: int, time_ms: int, metrics: Mapping[str, float]) -> None:
        # JSON has no NaN or infinity: they are written as the strings that float() reads.
        values = {name: x if math.isfinite(x) else str(x) for name, x in metrics.items()}
        line = json.dumps({"step": step, "time_ms": time_ms, "metrics": values}, allow_nan=False)
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_records(path: Path) -> Iterator[Record]:
    """Every record in the order written; lines torn by a kill are skipped."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield record["step"], record["time_ms"], {k: float(x) for k, x in record["metrics"].items()}


def read_metrics(path: Path) -> dict[str, Series]:
    """Metric name -> series; a step logged more than once keeps its last value."""
    points: dict[str, list[tuple[int, float]]] = {}
    for step, _, metrics in read_records(path):
        for name, value in metrics.items():
            points.setdefault(name, []).append((step, value))
    return {name: Series.from_points(found) for name, found in points.items()}
