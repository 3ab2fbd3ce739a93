"""Sequences: terms and sums of arithmetic and geometric ones, and terms of a recursion."""

from __future__ import annotations

import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, bracketed, latex, nonzero, ordinal, signed


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    return rng.choice([_arithmetic_term, _arithmetic_sum, _geometric_term, _recursion, _geometric_sum][:level])(
        rng, level
    )


def _arithmetic_term(rng: random.Random, level: int) -> Worked:
    first, step, n = nonzero(rng, 10 * level), nonzero(rng, 4 * level), rng.randint(8, 20 * level)
    shown = ", ".join(str(first + i * step) for i in range(4))
    answer = first + (n - 1) * step
    text = f"The arithmetic sequence ${shown}, \\ldots$ continues in this way. What is its {ordinal(n)} term?"
    return Worked(text, f"Each term adds ${step}$: ${first} {signed((n - 1) * step)} = {answer}$.", str(answer))


def _arithmetic_sum(rng: random.Random, level: int) -> Worked:
    first, step, n = rng.randint(1, 10 * level), rng.randint(1, 3 * level), rng.randint(6, 12 * level)
    last = first + (n - 1) * step
    answer = n * (first + last) // 2
    text = (
        f"What is the sum of the arithmetic series ${first} + {first + step} + {first + 2 * step} + \\cdots + {last}$?"
    )
    steps = f"There are ${n}$ terms with the mean $\\frac{{{first} + {last}}}{{2}}$, so the sum is ${answer}$."
    return Worked(text, steps, str(answer))


def _geometric_term(rng: random.Random, level: int) -> Worked:
    first, ratio, n = rng.randint(1, 4 * level), rng.choice([-3, -2, 2, 3]), rng.randint(4, 4 + level)
    answer = first * ratio ** (n - 1)
    text = f"A geometric sequence starts with ${first}, {first * ratio}, \\ldots$. What is its {ordinal(n)} term?"
    power = f"{first} \\cdot {bracketed(ratio)}^{{{n - 1}}}"
    return Worked(text, f"Each term is ${ratio}$ times the one before: ${power} = {answer}$.", str(answer))


def _recursion(rng: random.Random, level: int) -> Worked:
    a, b, n = rng.randint(1, 9), rng.randint(1, 9), rng.randint(5, 5 + level)
    p, q = rng.randint(1, 3), nonzero(rng, 3)
    terms = [a, b]
    while len(terms) < n:
        terms.append(p * terms[-1] + q * terms[-2])
    rule = f"a_{{n+1}} = {'' if p == 1 else p}a_n {'+' if q > 0 else '-'} {'' if abs(q) == 1 else abs(q)}a_{{n-1}}"
    text = f"Let $a_1 = {a}$, $a_2 = {b}$ and ${rule}$ for $n \\ge 2$. What is $a_{{{n}}}$?"
    return Worked(text, f"The terms are ${', '.join(map(str, terms))}$.", str(terms[-1]))


def _geometric_sum(rng: random.Random, level: int) -> Worked:
    denominator = rng.randint(2, 3 + level)
    ratio = Fraction(rng.choice([-1, 1]) * rng.randint(1, denominator - 1), denominator)
    first = rng.randint(1, 5 * level)
    answer = first / (1 - ratio)
    shown = f"{first} {_signed(first * ratio)} {_signed(first * ratio**2)}"
    text = f"What is the sum of the infinite geometric series ${shown} + \\cdots$ with the ratio ${latex(ratio)}$?"
    return Worked(text, f"It is $\\frac{{{first}}}{{1 - {bracketed(ratio)}}} = {latex(answer)}$.", latex(answer))


def _signed(value: Fraction) -> str:
    return f"{'+' if value >= 0 else '-'} {latex(abs(value))}"
