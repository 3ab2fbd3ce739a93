"""Fractions: sums, differences, products and quotients, with up to four of them."""

from __future__ import annotations

import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, latex

_SIGNS = {"+": "+", "-": "-", "*": r"\cdot", "/": r"\div"}


def draw(rng: random.Random, level: int) -> Worked:
    """Compute and give the value in lowest terms; products bind more than sums, as always."""
    operations = [rng.choice("+-" if level == 1 else "+-*/") for _ in range(1 + level // 2)]
    values = [_draw_fraction(rng, 4 + 3 * level) for _ in range(len(operations) + 1)]
    shown = latex(values[0]) + "".join(
        f" {_SIGNS[operation]} {latex(value)}" for operation, value in zip(operations, values[1:], strict=True)
    )
    products, signs = _multiply_first(values, operations)
    total = products[0] + sum(
        product if sign == "+" else -product for sign, product in zip(signs, products[1:], strict=True)
    )
    terms = latex(products[0]) + "".join(
        f" {sign} {latex(product)}" for sign, product in zip(signs, products[1:], strict=True)
    )
    has_both = signs and len(signs) < len(operations)
    steps = f"{f'Products and quotients first: ${terms}$. ' if has_both else ''}Step by step this is ${latex(total)}$."
    return Worked(f"Compute ${shown}$. Give the value in lowest terms.", steps, latex(total))


def _draw_fraction(rng: random.Random, largest: int) -> Fraction:
    denominator = rng.randint(2, largest)
    numerator = rng.randint(1, 2 * largest)
    return Fraction(numerator, denominator)


def _multiply_first(values: list[Fraction], operations: list[str]) -> tuple[list[Fraction], list[str]]:
    """(terms, signs between them) after all products and quotients."""
    terms, signs = [values[0]], []
    for operation, value in zip(operations, values[1:], strict=True):
        if operation == "*":
            terms[-1] *= value
        elif operation == "/":
            terms[-1] /= value
        else:
            terms.append(value)
            signs.append(operation)
    return terms, signs
