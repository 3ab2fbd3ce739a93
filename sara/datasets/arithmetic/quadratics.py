"""Quadratic equations: the larger root, sums and products of roots, values at a point, vertices."""

from __future__ import annotations

import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, bracketed, latex, nonzero, signed


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    return rng.choice([_value, _larger_root, _square_sum, _vertex][: max(1, level - 1)])(rng, level)


def _polynomial(a: int, b: int, c: int) -> str:
    lead = "x^2" if a == 1 else "-x^2" if a == -1 else f"{a}x^2"
    linear = "" if b == 0 else f" {'+' if b > 0 else '-'} {'' if abs(b) == 1 else abs(b)}x"
    return lead + linear + (f" {signed(c)}" if c else "")


def _value(rng: random.Random, level: int) -> Worked:
    a, b, c, x = nonzero(rng, 2 + level), nonzero(rng, 5 * level), nonzero(rng, 9 * level), nonzero(rng, 4 + 2 * level)
    answer = a * x * x + b * x + c
    text = f"Let $f(x) = {_polynomial(a, b, c)}$. What is $f({x})$?"
    return Worked(text, f"${a * x * x} {signed(b * x)} {signed(c)} = {answer}$.", str(answer))


def _larger_root(rng: random.Random, level: int) -> Worked:
    """(d x - n)(x - r) = 0 with d = 1 below level 4."""
    d = 1 if level < 4 else rng.randint(2, level)
    n, r = nonzero(rng, 4 * level), nonzero(rng, 3 * level)
    while n == d * r:  # a double root is no larger one
        n = nonzero(rng, 4 * level)
    roots = (Fraction(n, d), Fraction(r))
    text = f"What is the larger solution of ${_polynomial(d, -(n + d * r), n * r)} = 0$?"
    factors = f"{_factor(d, n)}{_factor(1, r)}"
    steps = f"${factors} = 0$ for $x = {latex(roots[0])}$ and for $x = {latex(roots[1])}$."
    return Worked(text, steps, latex(max(roots)))


def _factor(d: int, n: int) -> str:
    return f"({'' if d == 1 else d}x {signed(-n)})"


def _square_sum(rng: random.Random, level: int) -> Worked:
    b, c = nonzero(rng, 6 * level), nonzero(rng, 6 * level)
    while b * b <= 4 * c:  # two real roots
        b += 1 if b > 0 else -1
    answer = b * b - 2 * c
    text = f"Let $r$ and $s$ be the solutions of ${_polynomial(1, b, c)} = 0$. What is $r^2 + s^2$?"
    return Worked(text, f"$(r + s)^2 - 2rs = {bracketed(-b)}^2 - 2 \\cdot {bracketed(c)} = {answer}$.", str(answer))


def _vertex(rng: random.Random, level: int) -> Worked:
    a, b, c = rng.randint(1, level), nonzero(rng, 5 * level), nonzero(rng, 8 * level)
    x = Fraction(-b, 2 * a)
    answer = a * x * x + b * x + c
    text = f"What is the smallest value of ${_polynomial(a, b, c)}$ over all real numbers $x$?"
    return Worked(text, f"It is taken at $x = {latex(x)}$ and is ${latex(answer)}$.", latex(answer))
