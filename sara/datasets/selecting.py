"""Which of the problems that were read are kept: once each, with a reference to score against, apart from others.

Owns the reasons for leaving a problem out. Nothing is left out without being counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sara.datasets.base import Problem

DUPLICATE = "duplicate"
FAULTY = "faulty"
SHARED = "shared"
LONG = "long"
REASONS = {
    DUPLICATE: "asked before in the same set",
    FAULTY: "without an answer that can be scored against",
    SHARED: "also in an evaluation set",
    LONG: "longer than prompt.max_tokens",
}


@dataclass(frozen=True)
class LeftOut:
    """A problem that is not used: its id or where it was read, one of REASONS, and more about it."""

    where: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Side:
    """The problems of one side that are used, in order, and those that are left out."""

    problems: list[Problem]
    left_out: list[LeftOut] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many were left out for each reason, zeros included."""
        found = Counter(item.reason for item in self.left_out)
        return {reason: found[reason] for reason in REASONS}

    def summary(self) -> str:
        """What was left out, why, and the first of each kind, in a line."""
        first = {item.reason: item for item in reversed(self.left_out)}
        parts = [
            f"{count:,} {REASONS[reason]} ({_shown(first[reason])}{', ...' if count > 1 else ''})"
            for reason, count in self.counts().items()
            if count
        ]
        return f"left out: {'; '.join(parts)}" if parts else "nothing was left out"

    def keep(self, reason: str, is_kept: Callable[[Problem], str | None]) -> Side:
        """Without the problems of which `is_kept` says what is wrong."""
        faults = [(problem, is_kept(problem)) for problem in self.problems]
        dropped = [LeftOut(problem.where, reason, fault) for problem, fault in faults if fault is not None]
        return replace(self, problems=[p for p, fault in faults if fault is None], left_out=[*self.left_out, *dropped])


def _shown(item: LeftOut) -> str:
    return f"{item.where}: {item.detail}" if item.detail else item.where


def without_duplicates(problems: Sequence[Problem], where: str) -> Side:
    """Each problem once, the first of those that ask the same; raises ValueError for two problems with one id."""
    first: dict[object, str] = {}
    by_id: dict[str, Problem] = {}
    for problem in problems:
        other = by_id.setdefault(problem.id, problem)
        if other.content != problem.content:
            places = f" ({other.place} and {problem.place})" if problem.place else ""
            raise ValueError(f"{where}: two problems have the id {problem.id}{places}; expected an id for each")
    kept, dropped = [], []
    for problem in problems:
        if problem.content in first:
            dropped.append(LeftOut(problem.where, DUPLICATE, f"as {first[problem.content]}"))
        else:
            first[problem.content] = problem.where
            kept.append(problem)
    return Side(kept, dropped)


def without_faulty(side: Side, fault: Callable[[Problem], str | None]) -> Side:
    """Without the problems that no response can be scored against."""
    return side.keep(FAULTY, fault)


def apart_from(side: Side, others: Sequence[Problem]) -> Side:
    """Without the problems that the others ask too, whatever their ids and typesetting."""
    asked = {problem.content: problem.where for problem in others}
    return side.keep(SHARED, lambda problem: f"as {asked[problem.content]}" if problem.content in asked else None)


def choose(side: Side, count: int | None, seed: str) -> Side:
    """At most so many of its problems, a seeded choice, in their order; all of them where there is no number."""
    if count is None or count >= len(side.problems):
        return side
    chosen = sorted(random.Random(f"choose/{seed}").sample(range(len(side.problems)), count))
    return replace(side, problems=[side.problems[i] for i in chosen])
