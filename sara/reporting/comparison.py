"""What a report is made of: a comparison of strategies as plain values.

Owns the shape of the numbers and how a series is read. Never computes a statistic of a table
(`summary`), draws (`figures`) or asks a tracking server (`tasks.tracking`).
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

REFERENCE = "ds"  # costs are given as a share of dynamic sampling's
ORDER = ("uniform", "ds", "dps", "ds+dps", "sara", "sara+dps")
FATES = ("effective", "abandoned", "audited", "saturated", "surplus", "unfinished", "aborted", "missing")

_LABELS = {
    "base": "base model",
    "uniform": "Uniform",
    "ds": "DS",
    "dps": "DPS",
    "ds+dps": "DS + DPS",
    "sara": "SARA",
    "sara+dps": "SARA + DPS",
}
_ALGORITHMS = {
    "grpo": "GRPO",
    "dr_grpo": "Dr.GRPO",
    "rloo": "RLOO",
    "reinforce++": "REINFORCE++",
    "reinforce++-baseline": "REINFORCE++ baseline",
    "ppo": "PPO",
}
_BY = " by "  # between a strategy and its algorithm
_JOIN = " · "  # between those and what else sets a variant apart


class Series(NamedTuple):
    """The values of one metric, one a step, steps rising."""

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()

    @classmethod
    def from_points(cls, points: Iterable[tuple[int, float]]) -> "Series":
        """A step logged more than once (a resumed run) keeps its last value."""
        latest = dict(points)
        steps = tuple(sorted(latest))
        return cls(steps, tuple(latest[step] for step in steps))

    def at(self, step: int) -> float | None:
        return dict(zip(self.steps, self.values, strict=True)).get(step)

    def finite(self) -> "Series":
        """Without steps whose value is NaN or infinite (a share of nothing, a diverged loss)."""
        kept = [(t, x) for t, x in zip(self.steps, self.values, strict=True) if math.isfinite(x)]
        return Series.from_points(kept)

    def last(self) -> float | None:
        values = self.finite().values
        return values[-1] if values else None


@dataclass(frozen=True)
class TrainingRun:
    """One strategy trained with one seed; `variant` says what else sets it apart, such as `k=8`."""

    strategy: str
    seed: int
    metrics: Mapping[str, Series]
    name: str = ""
    run_id: str = ""
    status: str = "FINISHED"
    variant: str = ""

    @property
    def group(self) -> str:
        """What its seeds are averaged under: the strategy, and the settings in which compared runs differ."""
        return f"{self.strategy}{_JOIN}{self.variant}" if self.variant else self.strategy

    def series(self, metric: str) -> Series:
        return self.metrics.get(metric, Series())


@dataclass(frozen=True)
class Comparison:
    """The base model's evaluation and, for each strategy and seed, the metrics of each step."""

    name: str
    runs: tuple[TrainingRun, ...]
    base: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    run_id: str = ""
    experiment: str = ""
    started: str = ""
    status: str = "FINISHED"

    def strategies(self) -> tuple[str, ...]:
        """By variant and algorithm where there are several; known strategies in the order they build on each other,
        then the others by name."""
        return tuple(sorted({run.group for run in self.runs}, key=_rank))

    def of(self, strategy: str) -> tuple[TrainingRun, ...]:
        """The runs of one strategy (in one variant), by seed."""
        return tuple(sorted((r for r in self.runs if r.group == strategy), key=lambda r: r.seed))

    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({run.seed for run in self.runs}))


def with_algorithm(strategy: str, algorithm: str) -> str:
    """The name of a strategy in a comparison of several algorithms, where each pair of the two is one of its own."""
    return f"{strategy}{_BY}{algorithm}"


def bare_strategy(strategy: str) -> str:
    """The strategy's own name, without the algorithm that it was trained with and without its variant."""
    return strategy.partition(_JOIN)[0].partition(_BY)[0]


def reference_of(strategy: str) -> str:
    """What the costs of a strategy are a share of: dynamic sampling with the same algorithm, in the same variant."""
    return REFERENCE + strategy.removeprefix(bare_strategy(strategy))


def label(strategy: str) -> str:
    """How a strategy is written for readers."""
    strategy, _, variant = strategy.partition(_JOIN)
    name, _, algorithm = strategy.partition(_BY)
    parts = (_ALGORITHMS.get(algorithm, algorithm), _LABELS.get(name, name), variant)
    return ", ".join(part for part in parts if part)


def _rank(strategy: str) -> tuple:
    strategy, _, variant = strategy.partition(_JOIN)
    name, _, algorithm = strategy.partition(_BY)
    algorithms = list(_ALGORITHMS)
    place = algorithms.index(algorithm) if algorithm in algorithms else len(algorithms)
    return _natural(variant), place, algorithm, ORDER.index(name) if name in ORDER else len(ORDER), name


def _natural(text: str) -> list[tuple[float, str]]:
    """Numbers in a text sort as numbers: k=8 before k=16."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", text)
    return [(float(part), "") if place % 2 else (-math.inf, part) for place, part in enumerate(parts)]
