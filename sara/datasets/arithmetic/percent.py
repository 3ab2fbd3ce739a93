"""Percent: shares, rises and falls, prices before a discount, two changes in a row."""

from __future__ import annotations

import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, latex


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    return rng.choice([_share, _change, _before, _two_changes][: max(2, level)])(rng, level)


def _percent(rng: random.Random, level: int, largest: int = 95) -> int:
    step = 10 if level == 1 else 5 if level < 4 else 1
    return step * rng.randint(1, largest // step)


def _share(rng: random.Random, level: int) -> Worked:
    percent, whole = _percent(rng, level), 10 * rng.randint(2, 40 * level)
    answer = Fraction(percent * whole, 100)
    text = f"What is ${percent}\\%$ of ${whole}$? Give an exact value."
    return Worked(text, f"$\\frac{{{percent}}}{{100}} \\cdot {whole} = {latex(answer)}$.", latex(answer))


def _change(rng: random.Random, level: int) -> Worked:
    percent, start = _percent(rng, level), 20 * rng.randint(2, 20 * level)
    rises = rng.random() < 0.5
    answer = start * Fraction(100 + percent if rises else 100 - percent, 100)
    change = f"{'rises' if rises else 'falls'} by ${percent}\\%$"
    text = f"A quantity of ${start}$ {change}. What is it then? Give an exact value."
    factor = latex(Fraction(100 + percent if rises else 100 - percent, 100))
    return Worked(text, f"${start} \\cdot {factor} = {latex(answer)}$.", latex(answer))


def _before(rng: random.Random, level: int) -> Worked:
    percent, before = _percent(rng, level, largest=80), 20 * rng.randint(1, 15 * level)
    after = before * Fraction(100 - percent, 100)
    if after.denominator != 1:
        before, after = before * after.denominator, after * after.denominator
    text = f"After a discount of ${percent}\\%$ an article costs ${after}$ coins. How many coins did it cost before?"
    left = 100 - percent
    steps = f"${after}$ is ${left}\\%$ of the price before: ${after} \\cdot \\frac{{100}}{{{left}}} = {before}$."
    return Worked(text, steps, str(before))


def _two_changes(rng: random.Random, level: int) -> Worked:
    up, down = _percent(rng, level), _percent(rng, level, largest=60)
    factor = Fraction(100 + up, 100) * Fraction(100 - down, 100)
    start = 100 * rng.randint(1, 12 * level)
    answer = start * factor
    text = (
        f"A price of ${start}$ first rises by ${up}\\%$, and the new price then falls by ${down}\\%$. "
        "What is the price in the end? Give an exact value."
    )
    changes = f"\\frac{{{100 + up}}}{{100}} \\cdot \\frac{{{100 - down}}}{{100}}"
    return Worked(text, f"${start} \\cdot {changes} = {latex(answer)}$.", latex(answer))
