"""Linear equations: one unknown, brackets and fractions; from level 4 two equations in two unknowns."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, latex, nonzero, signed


def draw(rng: random.Random, level: int) -> Worked:
    """Solve for x."""
    return _two_unknowns(rng, level) if level >= 4 and rng.random() < 0.5 else _one_unknown(rng, level)


def _one_unknown(rng: random.Random, level: int) -> Worked:
    """a x + b = c x + d with c = 0 at level 1; the solution is whole up to level 2."""
    largest = 4 + 4 * level
    a, c = rng.randint(2, largest), 0 if level == 1 else rng.randint(1, largest)
    if a == c:
        a += 1
    b = nonzero(rng, 5 * level)
    if level <= 2:
        x = Fraction(nonzero(rng, 6 * level))
        d = int((a - c) * x) + b
    else:
        d = nonzero(rng, 10 * level)
        x = Fraction(d - b, a - c)
    right = str(d) if c == 0 else f"{_times(c)} {signed(d)}" if d else _times(c)
    steps = f"Collecting terms gives ${_times(a - c)} = {d - b}$."
    if a - c != 1:
        steps += f" So $x = {latex(x)}$."
    return Worked(f"Solve for $x$: ${a}x {signed(b)} = {right}$.", steps, latex(x))


def _two_unknowns(rng: random.Random, level: int) -> Worked:
    x, y = nonzero(rng, 3 * level), nonzero(rng, 3 * level)
    a, b, c, d = (rng.randint(1, 2 + level) for _ in range(4))
    first, second = a * x + b * y, c * x - d * y
    common = math.gcd(b, d)
    both = (a * d + c * b) // common  # above 0, as all four are positive: there is one solution
    text = (
        f"The numbers $x$ and $y$ satisfy ${_times(a)} + {_times(b, 'y')} = {first}$ and "
        f"${_times(c)} - {_times(d, 'y')} = {second}$. What is $x + y$?"
    )
    added = f"{_multiplied(d // common, 'first')} and {_multiplied(b // common, 'second')}"
    steps = (
        f"Adding {added} gives ${_times(both)} = {both * x}$, so $x = {x}$, and then $y = {y}$. Their sum is ${x + y}$."
    )
    return Worked(text, steps, str(x + y))


def _multiplied(factor: int, which: str) -> str:
    return f"the {which} equation" if factor == 1 else f"${factor}$ times the {which} equation"


def _times(factor: int, unknown: str = "x") -> str:
    return {1: "", -1: "-"}.get(factor, str(factor)) + unknown
