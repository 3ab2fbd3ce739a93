"""Functions of values: factorials, logarithms, trigonometry, rounding, sums over ranges. Every one is bounded."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, gcd, lcm
from typing import TYPE_CHECKING

from sara.verifiers.math.arithmetic import both, exponential
from sara.verifiers.math.syntax import Node, Number, Symbol
from sara.verifiers.math.values import (
    MAX_ARGUMENT_BITS,
    MAX_EXACT_BITS,
    MAX_OPERATIONS,
    Operation,
    OutOfBounds,
    Undefined,
    Unsupported,
    Value,
)

if TYPE_CHECKING:
    from sara.verifiers.math.evaluation import Evaluator


def _factorial(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    if isinstance(value, Fraction) and value.denominator == 1:
        if value < 0:
            raise Undefined("factorial of a negative number")
        if value <= 2_500:
            return Fraction(factorial(value.numerator))
    return _gamma(evaluator, evaluator.number(value) + 1)


def _gamma(evaluator: Evaluator, value: Value) -> Value:
    if evaluator.context.mag(value) > 24:
        raise OutOfBounds("factorial of too great a number")
    if isinstance(value, evaluator.context.mpc):
        raise Unsupported("factorial of a complex number")
    if value <= 0 and value == int(value):
        raise Undefined("factorial of a negative number")
    return evaluator.context.gamma(value)


def _binomial(evaluator: Evaluator, above: Node, below: Node) -> Value:
    n, k = evaluator(above), evaluator(below)
    if isinstance(n, Fraction) and isinstance(k, Fraction) and n.denominator == k.denominator == 1:
        if 0 <= n <= 2_500:
            return Fraction(comb(n.numerator, k.numerator)) if k >= 0 else Fraction(0)
        if 0 <= k <= 50:
            product = Fraction(1)
            for step in range(k.numerator):
                product = product * (n - step) / (step + 1)
            return product
    n, k = evaluator.number(n), evaluator.number(k)
    return _gamma(evaluator, n + 1) / (_gamma(evaluator, k + 1) * _gamma(evaluator, n - k + 1))


def _rounding(direction: str) -> Operation:
    def compute(evaluator: Evaluator, argument: Node) -> Value:
        value = evaluator.real(evaluator(argument))
        if not isinstance(value, Fraction) and (evaluator.context.isinf(value) or evaluator.context.mag(value) > 5_000):
            raise OutOfBounds("rounding of too great a number")
        down = value.__floor__() if isinstance(value, Fraction) else int(evaluator.context.floor(value))
        if direction == "floor":
            return Fraction(down)
        return Fraction(down if value == down else down + 1)

    return compute


def _logarithm(evaluator: Evaluator, argument: Node, base: Node | None = None) -> Value:
    value = evaluator(argument)
    if value == 0:
        raise Undefined("logarithm of zero")
    if value == 1:
        return Fraction(0)
    top = evaluator.context.ln(evaluator.number(value))
    if base is None:
        return top
    foot = evaluator(base)
    if foot == 0 or foot == 1:
        raise Undefined("logarithm to the base 0 or 1")
    if isinstance(value, Fraction) and isinstance(foot, Fraction) and value > 0 and foot > 0:
        exact = _exact_logarithm(value, foot)
        if exact is not None:
            return exact
    return top / evaluator.context.ln(evaluator.number(foot))


def _bare_logarithm(evaluator: Evaluator, argument: Node, base: Node | None = None) -> Value:
    if base is None and evaluator.log_is_common:
        base = Number(Fraction(10))
    return _logarithm(evaluator, argument, base)


def _extreme(choose: Operation) -> Operation:
    def compute(evaluator: Evaluator, *arguments: Node) -> Value:
        values = [evaluator.real(evaluator(argument)) for argument in arguments]
        if not all(isinstance(value, Fraction) for value in values):
            values = [evaluator.number(value) for value in values]
        return choose(values)

    return compute


def _divisors(combine: Callable[..., int]) -> Operation:
    def compute(evaluator: Evaluator, *arguments: Node) -> Value:
        values = [evaluator(argument) for argument in arguments]
        if not all(isinstance(value, Fraction) and value.denominator == 1 for value in values):
            raise Unsupported("divisors of what is not whole")
        return Fraction(combine(*(value.numerator for value in values)))

    return compute


def _exact_logarithm(value: Fraction, base: Fraction) -> Fraction | None:
    """The whole logarithm, where it is one."""
    guess = round((value.numerator.bit_length() - value.denominator.bit_length()) / _bits(base)) if _bits(base) else 0
    for exponent in range(guess - 2, guess + 3):
        bits = abs(exponent) * max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits <= MAX_EXACT_BITS and base**exponent == value:
            return Fraction(exponent)
    return None


def _bits(value: Fraction) -> int:
    return value.numerator.bit_length() - value.denominator.bit_length()


def _trigonometric(name: str) -> Operation:
    def compute(evaluator: Evaluator, argument: Node) -> Value:
        degree_is_one, evaluator.degree_is_one = evaluator.degree_is_one, False
        try:
            value = evaluator.number(evaluator(argument))
        finally:
            evaluator.degree_is_one = degree_is_one
        if evaluator.context.isinf(value) or evaluator.context.mag(value) > MAX_ARGUMENT_BITS:
            raise OutOfBounds(f"{name} of too great a number")
        if name.endswith("h") and evaluator.context.mag(value) > 30:
            raise OutOfBounds(f"{name} of too great a number")
        try:
            return getattr(evaluator.context, name)(value)
        except ZeroDivisionError:
            raise Undefined(f"{name} at a pole") from None

    return compute


def _over_range(combine: Callable[[Value, Value], Value], start: Fraction) -> Operation:
    def compute(evaluator: Evaluator, index: Symbol, lower: Node, upper: Node, body: Node) -> Value:
        first, last = evaluator(lower), evaluator(upper)
        if not isinstance(first, Fraction) or not isinstance(last, Fraction):
            raise Unsupported("a range without end")
        if first.denominator != 1 or last.denominator != 1:
            raise Undefined("a range between fractions")
        if last - first > MAX_OPERATIONS:
            raise OutOfBounds("too long a range")
        total: Value = start
        hidden = evaluator.point.get(index.name)
        for step in range(first.numerator, last.numerator + 1):
            evaluator.point[index.name] = Fraction(step)
            total = evaluator.checked(combine(*both(evaluator, total, evaluator(body))))
        evaluator.point.pop(index.name, None)
        if hidden is not None:
            evaluator.point[index.name] = hidden
        return total

    return compute


_ARC = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc"}
FUNCTIONS: dict[str, Operation] = {
    "!": _factorial,
    "binom": _binomial,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "exp": exponential,
    "ln": _logarithm,
    "log": _bare_logarithm,
    "max": _extreme(max),
    "min": _extreme(min),
    "gcd": _divisors(gcd),
    "lcm": _divisors(lcm),
    "sum": _over_range(lambda a, b: a + b, Fraction(0)),
    "prod": _over_range(lambda a, b: a * b, Fraction(1)),
    **{
        name: _trigonometric(name)
        for name in ["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth"]
    },
    **{name: _trigonometric(function) for name, function in _ARC.items()},
}
