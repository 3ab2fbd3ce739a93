"""Search traces: what the built-in model is trained to write for a Countdown problem.

A trace tries combinations step by step, marks a try that misses, and ends with an answer:

    3 * 5 = 15 ; 15 - 7 = 8 no 3 * 5 = 15 ; 15 + 7 = 22 yes <answer> ( 3 * 5 ) + 7 </answer>

A miss may be followed by giving up, `<answer> none </answer>`, and the last of MAX_TRIES misses always
is: reinforcement has something to teach, to go on trying. A search that never gives up early makes
failures longer than successes, as in reasoning models; one that often does makes them shorter. Words
are separated by single spaces.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sara.datasets.countdown import Combination, Countdown, draw_countdown, random_combinations

MAX_TRIES = 4
STEP_SEPARATOR = ";"
MISS = "no"
HIT = "yes"
GIVE_UP = "none"


@dataclass(frozen=True)
class TraceRecipe:
    """How traces are drawn.

    sizes              how many numbers -> weight
    number_range       smallest and largest number, both included
    target_range       smallest and largest target, both included
    max_intermediate   largest value inside a try
    hit_rate           chance that a try is the constructing solution
    give_up_rate       chance of giving up after a miss, before MAX_TRIES

    Raises ValueError if the sum of two numbers may exceed max_intermediate: a problem could then have no miss.
    """

    sizes: Mapping[int, float]
    number_range: tuple[int, int] = (1, 13)
    target_range: tuple[int, int] = (1, 99)
    max_intermediate: int = 99
    hit_rate: float = 0.75
    give_up_rate: float = 0.2

    def __post_init__(self) -> None:
        largest_sum = 2 * self.number_range[1]
        if largest_sum > self.max_intermediate:
            raise ValueError(f"traces: max_intermediate = {self.max_intermediate}; expected at least {largest_sum}")


def draw_trace(rng: random.Random, recipe: TraceRecipe) -> tuple[str, str]:
    """One training-side problem and a trace for it: (prompt text, response text)."""
    while True:
        size = rng.choices(list(recipe.sizes), weights=list(recipe.sizes.values()))[0]
        drawn = draw_countdown(rng, size, recipe.number_range, recipe.target_range, recipe.max_intermediate)
        if drawn is not None and drawn[0].split == "train":
            problem, solution = drawn
            return problem.text, _search(rng, problem, solution, recipe)


def _search(rng: random.Random, problem: Countdown, solution: list[Combination], recipe: TraceRecipe) -> str:
    words: list[str] = []
    for _ in range(MAX_TRIES):
        if rng.random() < recipe.hit_rate:
            return " ".join([*words, format_steps(solution), HIT, _answer(format_expression(solution))])
        words += [format_steps(_random_miss(rng, problem, recipe.max_intermediate)), MISS]
        if rng.random() < recipe.give_up_rate:
            break
    return " ".join([*words, _answer(GIVE_UP)])


def _random_miss(rng: random.Random, problem: Countdown, max_intermediate: int) -> list[Combination]:
    while True:
        steps = random_combinations(rng, problem.numbers, max_intermediate)
        if steps is not None and steps[-1].result != problem.target:
            return steps


def format_steps(steps: Sequence[Combination]) -> str:
    """`3 * 5 = 15 ; 15 + 7 = 22`"""
    shown = [f"{step.left} {step.operation} {step.right} = {step.result}" for step in steps]
    return f" {STEP_SEPARATOR} ".join(shown)


def format_expression(steps: Sequence[Combination]) -> str:
    """The steps as one expression, each inner result in brackets: `( 3 * 5 ) + 7`."""
    expressions: list[tuple[int, str]] = []
    shown = ""
    for step in steps:
        left, right = _take(expressions, step.left), _take(expressions, step.right)
        shown = f"{left} {step.operation} {right}"
        expressions.append((step.result, f"( {shown} )"))
    return shown


def _take(expressions: list[tuple[int, str]], value: int) -> str:
    for position, (result, expression) in enumerate(expressions):
        if result == value:
            del expressions[position]
            return expression
    return str(value)


def _answer(expression: str) -> str:
    return f"<answer> {expression} </answer>"
