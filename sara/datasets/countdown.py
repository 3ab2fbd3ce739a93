"""Countdown: reach a target from a few numbers with + - * /, using each number exactly once.

Owns the seeded generator, the prompt's text and the form of a row. A problem is solvable by
construction: numbers are drawn, then combined at random until one value is left, the target.
The split is a property of a problem, not of a data set: a hash of its sorted numbers and target
puts it on the training side or the held-out side, for every seed and size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sara.datasets.base import Dataset, Field, Problem, Row, Split
from sara.datasets.sides import side_of
from sara.verifiers import Verdict, verify_countdown
from sara.verifiers.countdown import extract_answer

if TYPE_CHECKING:
    from sara.config import DataConfig

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
        """Side of the split: by a hash of its content, whatever the order of its numbers."""
        return side_of(f"{sorted(self.numbers)}={self.target}")

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
        answer=_answer,
        is_same=_is_same,
        level=len(bare.numbers),
        identity=bare.canonical,
    )


def _verify(response: str, numbers: tuple[int, ...], target: int) -> Verdict:
    return verify_countdown(response, numbers, target)


def _answer(response: str) -> str | None:
    return extract_answer(response) or None


def _is_same(answer: str, other: str) -> bool:
    """Wrong answers are one if they are written alike, spaces aside; right ones are one anyway."""
    return "".join(answer.split()) == "".join(other.split())


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


FIELDS = {
    "numbers": Field(("numbers", "nums")),
    "target": Field(("target",)),
    "id": Field(("id",), is_required=False),
}


def read_countdown(row: Row, place: str) -> Problem:
    """Problem of a row; raises ValueError, naming its place, for values that no Countdown problem has."""
    numbers, target, problem_id = row["numbers"], row["target"], row.get("id")
    is_valid = isinstance(numbers, list) and len(numbers) > 1
    if not (is_valid and all(type(value) is int and value >= 0 for value in [*numbers, target])):
        raise ValueError(f"{place}: numbers must be two or more integers >= 0 and target an integer >= 0")
    if not (problem_id is None or (isinstance(problem_id, str) and problem_id)):
        raise ValueError(f"{place}: id = {problem_id!r}; expected a text that is not empty")
    return countdown_problem(numbers, target, problem_id)


def _generate(config: DataConfig, split: Split) -> list[Problem]:
    generated = generate_countdown(
        count=config.generated_size(split),
        seed=config.seed,
        split=split,
        sizes=config.sizes,
        number_range=config.number_range,
        target_range=config.target_range,
        max_intermediate=config.max_intermediate,
    )
    return [countdown_problem(*problem) for problem in generated]


DATASET = Dataset(
    title="generated: reach a target from a few numbers, each used exactly once",
    fields=FIELDS,
    read=read_countdown,
    generate=_generate,
)
