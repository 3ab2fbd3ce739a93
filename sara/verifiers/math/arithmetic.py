"""Sums, products, quotients, powers and roots of values: exact in rational numbers as far as it goes.

Every operation is bounded before it is computed.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from sara.verifiers.math.syntax import Node, Symbol
from sara.verifiers.math.values import (
    MAX_EXACT_BITS,
    MAX_MAGNITUDE_BITS,
    MAX_REAL_ROOT,
    Operation,
    OutOfBounds,
    Undefined,
    Unsupported,
    Value,
)

if TYPE_CHECKING:
    from sara.verifiers.math.evaluation import Evaluator


def both(evaluator: Evaluator, left: Value, right: Value) -> tuple[Value, Value]:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left, right
    return evaluator.number(left), evaluator.number(right)


def _add(evaluator: Evaluator, *terms: Node) -> Value:
    total: Value = Fraction(0)
    for term in terms:
        a, b = both(evaluator, total, evaluator(term))
        total = evaluator.checked(a + b)
    return total


def _multiply(evaluator: Evaluator, *factors: Node) -> Value:
    total: Value = Fraction(1)
    for factor in factors:
        a, b = both(evaluator, total, evaluator(factor))
        total = evaluator.checked(a * b)
    return total


def _divide(evaluator: Evaluator, left: Node, right: Node) -> Value:
    a, b = both(evaluator, evaluator(left), evaluator(right))
    if b == 0:
        raise Undefined("division by zero")
    return a / b


def _power(evaluator: Evaluator, base: Node, exponent: Node) -> Value:
    if base == Symbol("e"):
        return exponential(evaluator, exponent)
    return raise_to(evaluator, evaluator(base), evaluator(exponent))


def raise_to(evaluator: Evaluator, base: Value, exponent: Value) -> Value:
    """base ** exponent: exact for rational bases and whole exponents, real odd roots of negative numbers."""
    context = evaluator.context
    if base == 0:
        return _power_of_zero(evaluator, exponent)
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        return _whole_power(evaluator, base, exponent.numerator)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if (root := _exact_root(base, exponent.denominator)) is not None:
            return _whole_power(evaluator, root, exponent.numerator)
        if base < 0 and exponent.denominator % 2 and exponent.denominator < MAX_REAL_ROOT:
            size = raise_to(evaluator, -base, exponent)
            return -size if exponent.numerator % 2 else size
    base, exponent = evaluator.number(base), evaluator.number(exponent)
    if context.isinf(exponent) or context.isinf(base):
        raise Undefined("a power with infinity")
    _check_power(context, base, exponent)
    return context.power(base, exponent)


def _power_of_zero(evaluator: Evaluator, exponent: Value) -> Value:
    if exponent == 0:
        return Fraction(1)
    if isinstance(exponent, evaluator.context.mpc) or exponent < 0:
        raise Undefined("a negative power of zero")
    return Fraction(0)


def _whole_power(evaluator: Evaluator, base: Value, exponent: int) -> Value:
    if isinstance(base, Fraction):
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits <= MAX_EXACT_BITS or abs(base) == 1:
            return base ** (exponent if abs(base) != 1 else exponent % 2)
        base = evaluator.number(base)
    if exponent.bit_length() > 64:
        raise OutOfBounds("too great an exponent")
    _check_power(evaluator.context, base, evaluator.context.mpf(exponent))
    return evaluator.context.power(base, exponent)


def _check_power(context, base: Value, exponent: Value) -> None:
    """Raise OutOfBounds where base ** exponent is beyond all bounds, before it is computed."""
    size = abs(context.mag(base)) + 1
    if context.mag(exponent) > 64 or abs(exponent) * size > MAX_MAGNITUDE_BITS:
        raise OutOfBounds("too great a power")


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The rational root of a rational number, where it is rational; odd roots of negative numbers are negative."""
    if (value < 0 and degree % 2 == 0) or degree > 64:
        return None
    above, below = _integer_root(abs(value.numerator), degree), _integer_root(value.denominator, degree)
    if above is None or below is None:
        return None
    return Fraction(above if value > 0 else -above, below)


def _integer_root(value: int, degree: int) -> int | None:
    if degree == 1:
        return value
    if degree == 2:
        root = isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        root = low
    return root if root**degree == value else None


def _negate(evaluator: Evaluator, argument: Node) -> Value:
    return -evaluator(argument)


def _square_root(evaluator: Evaluator, argument: Node) -> Value:
    return raise_to(evaluator, evaluator(argument), Fraction(1, 2))


def _root(evaluator: Evaluator, argument: Node, degree: Node) -> Value:
    value = evaluator(degree)
    if not isinstance(value, Fraction) or value == 0:
        raise Unsupported("a root of no whole degree")
    radicand = evaluator(argument)
    if value.denominator == 1 and value.numerator % 2 and evaluator.is_negative(radicand):
        return -raise_to(evaluator, -radicand, 1 / value)
    return raise_to(evaluator, radicand, 1 / value)


def _absolute(evaluator: Evaluator, argument: Node) -> Value:
    return abs(evaluator(argument))


def _degrees(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    return value if evaluator.degree_is_one else evaluator.number(value) * evaluator.context.pi / 180


def _percent(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    return value if evaluator.percent_is_one else value / 100


def _remainder(evaluator: Evaluator, left: Node, right: Node) -> Value:
    a, b = evaluator(left), evaluator(right)
    if not isinstance(a, Fraction) or not isinstance(b, Fraction):
        raise Unsupported("a remainder of what is not rational")
    if b == 0:
        raise Undefined("division by zero")
    return a % b


def exponential(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    if value == 0:
        return Fraction(1)
    value = evaluator.number(value)
    if evaluator.context.isinf(value) or evaluator.context.mag(value) > 30:
        raise OutOfBounds("exponential of too great a number")
    return evaluator.context.exp(value)


ARITHMETIC: dict[str, Operation] = {
    "+": _add,
    "*": _multiply,
    "/": _divide,
    "^": _power,
    "neg": _negate,
    "sqrt": _square_root,
    "root": _root,
    "abs": _absolute,
    "deg": _degrees,
    "percent": _percent,
    "mod": _remainder,
}
