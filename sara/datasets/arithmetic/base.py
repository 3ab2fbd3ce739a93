"""What every subject of arithmetic gives: a problem with its steps and its exact answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Worked(NamedTuple):
    r"""A problem, the steps that solve it in plain words, and its answer in LaTeX, as it goes into `\boxed{}`."""

    text: str
    steps: str
    answer: str

    @property
    def solution(self) -> str:
        return rf"{self.steps} The answer is \boxed{{{self.answer}}}."


Draw = Callable[[random.Random, int], Worked]
"""Draws a problem of a level, 1 (easy) to 5 (hard), from a random stream."""


def latex(value: Fraction | int) -> str:
    """An exact number in LaTeX: an integer, or a fraction in lowest terms with its sign in front."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def signed(value: int) -> str:
    """A number as it stands behind another term: `+ 3` or `- 3`."""
    return f"+ {value}" if value >= 0 else f"- {-value}"


def bracketed(value: Fraction | int) -> str:
    """A number as it stands behind a sign or below an exponent: in brackets if it is below zero."""
    return f"({latex(value)})" if value < 0 else latex(value)


def ordinal(number: int) -> str:
    """`$1$st`, `$22$nd`, `$13$th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"${number}${ending}"


def nonzero(rng: random.Random, largest: int) -> int:
    """An integer in -largest..largest other than 0."""
    return rng.choice((-1, 1)) * rng.randint(1, largest)
