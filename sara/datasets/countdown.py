"""Countdown: reach a target from a few numbers with + - * /, using each number exactly once.

Owns the seeded generator, the prompt's text and the JSONL form. A problem is solvable by
construction: numbers are drawn, then combined at random until one value is left, the target.
The split is a property of a problem, not of a data set: a hash of its sorted numbers and target
puts it on the training side or the held-out side, for every seed and size.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from sara.datasets.base import Problem
from sara.verifiers import Verdict, verify_countdown

Split = Literal["train", "heldout"]
HELDOUT_ONE_IN = 5
_MAX_FRUITLESS_DRAWS = 20_000


class Combination(NamedTuple):
    """One arithmetic step: left (operation) right = result."""

    left: int
    operation: str
    right: int
    result: int


class Countdown(NamedTuple):
    """The bare problem; `numbers` in the order in which they are shown."""

    numbers: tuple[int, ...]
    target: int

    @property
    def canonical(self) -> Countdown:
        """The same problem with its numbers in ascending order."""
        return Countdown(tuple(sorted(self.numbers)), self.target)

    @property
    def split(self) -> Split:
        """Side of the split: one problem in HELDOUT_ONE_IN is held out, by a hash of its content."""
        key = f"{sorted(self.numbers)}={self.target}".encode()
        bucket = int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % HELDOUT_ONE_IN
        return "heldout" if bucket == 0 else "train"

    @property
    def id(self) -> str:
        return f"countdown/{'-'.join(map(str, self.numbers))}={self.target}"

    @property
    def text(self) -> str:
        """The prompt, the same for every model."""
        shown = ", ".join(map(str, self.numbers))
        return (
            f"Use {shown} once each with + - * / and ( ) to make {self.target}. "
            "Think step by step, then answer as <answer> expression </answer>."
        )


def countdown_problem(numbers: Sequence[int], target: int, problem_id: str | None = None) -> Problem:
    """The problem that a model is asked and that its verifier judges."""
    bare = Countdown(tuple(numbers), target)
    return Problem(
        id=problem_id or bare.id,
        text=bare.text,
        reference={"numbers": list(bare.numbers), "target": target},
        verify=partial(_verify, numbers=bare.numbers, target=target),
    )


def _verify(response: str, numbers: tuple[int, ...], target: int) -> Verdict:
    return verify_countdown(response, numbers, target)


def generate_countdown(
    count: int,
    seed: int,
    split: Split,
    sizes: Mapping[int, float],
    number_range: tuple[int, int],
    target_range: tuple[int, int],
    max_intermediate: int,
) -> list[Countdown]:
    """Draw distinct problems of one side of the split.

    count              how many problems
    sizes              how many numbers -> weight of problems with so many
    number_range       smallest and largest number, both included
    target_range       smallest and largest target, both included
    max_intermediate   largest value that the constructing solution passes through
    returns            `count` problems, distinct in their sorted numbers and target

    Each size gets its exact share (largest remainders), in a seeded order.
    Raises ValueError if the settings do not have so many distinct problems.
    """
    rng = random.Random(f"countdown/{split}/{seed}")
    problems: list[Countdown] = []
    for size, share in _shares(count, sizes).items():
        draw = partial(draw_countdown, rng, size, number_range, target_range, max_intermediate)
        problems += _take_distinct(draw, share, split, size)
    rng.shuffle(problems)
    return problems


def draw_countdown(
    rng: random.Random,
    size: int,
    number_range: tuple[int, int],
    target_range: tuple[int, int],
    max_intermediate: int,
) -> tuple[Countdown, list[Combination]] | None:
    """A problem of either side with its constructing solution; None where the draw met a dead end or missed the ranges.

    A target that is one of the numbers counts as a miss.
    """
    numbers = tuple(rng.randint(*number_range) for _ in range(size))
    solution = random_combinations(rng, numbers, max_intermediate)
    if solution is None:
        return None
    problem = Countdown(numbers, solution[-1].result)
    is_fit = target_range[0] <= problem.target <= target_range[1] and problem.target not in numbers
    return (problem, solution) if is_fit else None


def random_combinations(rng: random.Random, numbers: Sequence[int], max_intermediate: int) -> list[Combination] | None:
    """Combine two random values at a time until one is left; None where a dead end is met.

    Every value stays an integer in 0..max_intermediate: larger minus smaller, exact division only.
    """
    values, steps = list(numbers), []
    while len(values) > 1:
        step = _random_combination(rng, values, max_intermediate)
        if step is None:
            return None
        values.remove(step.left)
        values.remove(step.right)
        values.append(step.result)
        steps.append(step)
    return steps


def _random_combination(rng: random.Random, values: list[int], max_intermediate: int) -> Combination | None:
    for _ in range(20):
        left, right = rng.sample(values, 2)
        operation = rng.choice("+-*/")
        result = combine(left, operation, right)
        if result is not None and result <= max_intermediate:
            return Combination(left, operation, right, result)
    return None


def combine(left: int, operation: str, right: int) -> int | None:
    """Result of one step; None if it would be negative or not an integer."""
    if operation == "+":
        return left + right
    if operation == "*":
        return left * right
    if operation == "-":
        return left - right if left >= right else None
    return left // right if right != 0 and left % right == 0 else None


def _take_distinct(
    draw: Callable[[], tuple[Countdown, list[Combination]] | None], count: int, split: Split, size: int
) -> list[Countdown]:
    taken: dict[Countdown, Countdown] = {}  # in the order of the draws
    fruitless = 0
    while len(taken) < count and fruitless < _MAX_FRUITLESS_DRAWS:
        drawn = draw()
        fruitless += 1
        if drawn is not None and drawn[0].split == split and drawn[0].canonical not in taken:
            taken[drawn[0].canonical] = drawn[0]
            fruitless = 0
    if len(taken) < count:
        raise ValueError(
            f"countdown: only {len(taken)} distinct {split} problems of {size} numbers were found "
            f"for these ranges; expected {count}. Ask for fewer or widen number_range or target_range."
        )
    return list(taken.values())


def _shares(count: int, sizes: Mapping[int, float]) -> dict[int, int]:
    total = sum(sizes.values())
    exact = {size: count * weight / total for size, weight in sorted(sizes.items())}
    shares = {size: int(share) for size, share in exact.items()}
    by_remainder = sorted(exact, key=lambda size: (shares[size] - exact[size], size))
    for size in by_remainder[: count - sum(shares.values())]:
        shares[size] += 1
    return shares


def read_countdown_jsonl(path: Path) -> list[Problem]:
    """Problems from a JSONL file with the fields `numbers`, `target` and optionally `id`.

    Raises ValueError, naming the file and line, for a missing or empty file or a faulty row.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such data file")
    problems = []
    with path.open("rb") as lines:
        for line_number, line in enumerate(lines, start=1):
            if line.strip():
                problems.append(_read_row(line, f"{path}:{line_number}"))
    if not problems:
        raise ValueError(f"{path}: the data file is empty; expected one JSON object a line")
    return problems


def _read_row(line: bytes, where: str) -> Problem:
    try:
        row = json.loads(line)
        numbers, target = row["numbers"], row["target"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f'{where}: expected a JSON object such as {{"numbers": [3, 5, 7], "target": 22}}') from None
    is_valid = isinstance(numbers, list) and len(numbers) > 1
    if not (is_valid and all(type(value) is int and value >= 0 for value in [*numbers, target])):
        raise ValueError(f"{where}: numbers must be two or more integers >= 0 and target an integer >= 0")
    problem_id = row.get("id")
    if not (problem_id is None or (isinstance(problem_id, str) and problem_id)):
        raise ValueError(f"{where}: id = {problem_id!r}; expected a text that is not empty")
    return countdown_problem(numbers, target, problem_id)
