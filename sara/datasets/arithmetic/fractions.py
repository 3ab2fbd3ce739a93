"""Fractions: sums, differences, products and quotients, with up to four of them."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, latex

_SIGNS = {"+": "+", "-": "-", "*": r"\cdot", "/": r"\div"}


def draw(rng: random.Random, level: int) -> Worked:
    """Compute and give the value in lowest terms; products bind more than sums, as always."""
    operations = [rng.choice("+-" if level == 1 else "+-*/") for _ in range(1 + level // 2)]
    values = [_draw_fraction(rng, 4 + 3 * level) for _ in range(len(operations) + 1)]
    shown = _chain(values, operations)
    products, signs = _multiply_first(values, operations)
    total = products[0] + sum(
        product if sign == "+" else -product for sign, product in zip(signs, products[1:], strict=True)
    )
    steps = _steps(values, operations, products, signs, total)
    return Worked(f"Compute ${shown}$. Give the value in lowest terms.", steps, latex(total))


def _steps(
    values: list[Fraction], operations: list[str], products: list[Fraction], signs: list[str], total: Fraction
) -> str:
    """Quotients as products, then these, then the sum over a common denominator."""
    steps = []
    if "/" in operations:
        turned = [1 / value if before == "/" else value for before, value in zip(operations, values[1:], strict=True)]
        as_products = ["*" if operation == "/" else operation for operation in operations]
        steps.append(f"Dividing is multiplying by the reciprocal: ${_chain([values[0], *turned], as_products)}$.")
    if signs and len(signs) < len(operations):
        steps.append(f"Products first: ${_chain(products, signs)}$.")
    if signs:
        common = math.lcm(*(product.denominator for product in products))
        above = f"{int(products[0] * common)}" + "".join(
            f" {sign} {int(product * common)}" for sign, product in zip(signs, products[1:], strict=True)
        )
        steps.append(
            f"This is $\\frac{{{above}}}{{{common}}} = {latex(total)}$."
            if common > 1
            else f"This is ${above} = {latex(total)}$."
        )
    else:
        steps.append(f"This is ${latex(total)}$.")
    return " ".join(steps)


def _chain(values: list[Fraction], operations: list[str]) -> str:
    return latex(values[0]) + "".join(
        f" {_SIGNS[operation]} {latex(value)}" for operation, value in zip(operations, values[1:], strict=True)
    )


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
