"""Computes the value of an expression: exactly in rational numbers where it can, else to many digits.

Every operation is bounded, so no expression takes long or much memory. Nothing is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb, factorial, gcd, isqrt, lcm

import mpmath

from sara.verifiers.math.syntax import Apply, Based, Node, Number, Symbol

MAX_EXACT_BITS = 20_000
"""Rational numbers beyond this go on as floating-point numbers of many digits."""
MAX_MAGNITUDE_BITS = 2_000_000_000
"""A number beyond 2 to this power (about 600 million digits) is out of bounds."""
MAX_ARGUMENT_BITS = 600
"""Arguments of trigonometric functions stay below 2 to this power: reducing greater ones takes long."""
MAX_REAL_ROOT = 100
"""Odd roots of negative numbers are real up to this degree; beyond, the exponent is no root that someone wrote."""
MAX_OPERATIONS = 4_000
"""In one evaluation, the terms of sums and products counted one by one."""

Value = Fraction | mpmath.mpf | mpmath.mpc


class Undefined(ValueError):
    """The expression has no value (division by zero, logarithm of zero)."""


class OutOfBounds(ValueError):
    """The value is too great, or takes too long to compute."""


class Unsupported(ValueError):
    """The expression has parts that are not computed here."""


def free_symbols(node: Node) -> frozenset[str]:
    """Names of the variables of an expression (`pi`, `e`, `i` and infinity are none)."""
    if isinstance(node, Symbol):
        return frozenset() if node.name in ("pi", "e", "i", "inf") else frozenset({node.name})
    if isinstance(node, Apply):
        names = frozenset().union(*(free_symbols(argument) for argument in node.arguments))
        return names - {node.arguments[0].name} if node.operation in ("sum", "prod") else names
    return frozenset()


class Evaluator:
    """Evaluates expressions at one point.

    context        an mpmath context with its precision; not shared between threads at one time
    point          value of each variable
    degree_is_one  90 degrees count as 90 (outside of trigonometric functions), not as pi/2
    percent_is_one 20 percent count as 20, not as 1/5
    log_is_common  a logarithm without a base is to the base 10, not e
    """

    def __init__(
        self,
        context,
        point: Mapping[str, Fraction] | None = None,
        degree_is_one: bool = False,
        percent_is_one: bool = False,
        log_is_common: bool = False,
    ):
        self.context = context
        self.point = dict(point or {})
        self.degree_is_one = degree_is_one
        self.percent_is_one = percent_is_one
        self.log_is_common = log_is_common
        self.operations = 0

    def __call__(self, node: Node) -> Value:
        """Value of the expression; raises Undefined, OutOfBounds or Unsupported."""
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise OutOfBounds("too many operations")
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Symbol):
            return self._symbol(node.name)
        if isinstance(node, Based):
            return Fraction(int(node.digits, node.base))
        if isinstance(node, Apply):
            compute = _OPERATIONS.get(node.operation)
            if compute is None:
                raise Unsupported(node.operation)
            return self._checked(compute(self, *node.arguments))
        raise Unsupported(type(node).__name__)

    def number(self, value: Value) -> Value:
        """The value as a floating-point number of the context."""
        return self.context.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value

    def _checked(self, value: Value) -> Value:
        if isinstance(value, Fraction):
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_EXACT_BITS:
                return self.number(value)
            return value
        if self.context.isnan(value):
            raise Undefined("not a number")
        if not self.context.isinf(value) and value != 0 and abs(self.context.mag(value)) > MAX_MAGNITUDE_BITS:
            raise OutOfBounds("too great a number")
        return value

    def _symbol(self, name: str) -> Value:
        if name in self.point:
            return self.point[name]
        if name == "pi":
            return +self.context.pi
        if name == "e":
            return +self.context.e
        if name == "i":
            return self.context.mpc(0, 1)
        if name == "inf":
            return self.context.inf
        raise Unsupported(name)

    def is_negative(self, value: Value) -> bool:
        """Whether the value is real and below zero."""
        return not isinstance(value, self.context.mpc) and value < 0

    def real(self, value: Value) -> Value:
        """The value as a real number; raises Unsupported where it is not one."""
        if isinstance(value, self.context.mpc):
            if abs(value.imag) > abs(value.real) * self.context.mpf(10) ** (5 - self.context.dps):
                raise Unsupported("not real")
            return value.real
        return value


def _both(evaluator: Evaluator, left: Value, right: Value) -> tuple[Value, Value]:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left, right
    return evaluator.number(left), evaluator.number(right)


def _add(evaluator: Evaluator, *terms: Node) -> Value:
    total: Value = Fraction(0)
    for term in terms:
        a, b = _both(evaluator, total, evaluator(term))
        total = evaluator._checked(a + b)
    return total


def _multiply(evaluator: Evaluator, *factors: Node) -> Value:
    total: Value = Fraction(1)
    for factor in factors:
        a, b = _both(evaluator, total, evaluator(factor))
        total = evaluator._checked(a * b)
    return total


def _divide(evaluator: Evaluator, left: Node, right: Node) -> Value:
    a, b = _both(evaluator, evaluator(left), evaluator(right))
    if b == 0:
        raise Undefined("division by zero")
    return a / b


def _power(evaluator: Evaluator, base: Node, exponent: Node) -> Value:
    if base == Symbol("e"):
        return _exponential(evaluator, exponent)
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


def _absolute(evaluator: Evaluator, argument: Node) -> Value:
    return abs(evaluator(argument))


def _rounding(direction: str) -> Callable[..., Value]:
    def compute(evaluator: Evaluator, argument: Node) -> Value:
        value = evaluator.real(evaluator(argument))
        if not isinstance(value, Fraction) and (evaluator.context.isinf(value) or evaluator.context.mag(value) > 5_000):
            raise OutOfBounds("rounding of too great a number")
        down = value.__floor__() if isinstance(value, Fraction) else int(evaluator.context.floor(value))
        if direction == "floor":
            return Fraction(down)
        return Fraction(down if value == down else down + 1)

    return compute


def _degrees(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    return value if evaluator.degree_is_one else evaluator.number(value) * evaluator.context.pi / 180


def _percent(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    return value if evaluator.percent_is_one else value / 100


def _exponential(evaluator: Evaluator, argument: Node) -> Value:
    value = evaluator(argument)
    if value == 0:
        return Fraction(1)
    value = evaluator.number(value)
    if evaluator.context.isinf(value) or evaluator.context.mag(value) > 30:
        raise OutOfBounds("exponential of too great a number")
    return evaluator.context.exp(value)


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


def _extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    def compute(evaluator: Evaluator, *arguments: Node) -> Value:
        values = [evaluator.real(evaluator(argument)) for argument in arguments]
        if not all(isinstance(value, Fraction) for value in values):
            values = [evaluator.number(value) for value in values]
        return choose(values)

    return compute


def _divisors(combine: Callable[..., int]) -> Callable[..., Value]:
    def compute(evaluator: Evaluator, *arguments: Node) -> Value:
        values = [evaluator(argument) for argument in arguments]
        if not all(isinstance(value, Fraction) and value.denominator == 1 for value in values):
            raise Unsupported("divisors of what is not whole")
        return Fraction(combine(*(value.numerator for value in values)))

    return compute


def _remainder(evaluator: Evaluator, left: Node, right: Node) -> Value:
    a, b = evaluator(left), evaluator(right)
    if not isinstance(a, Fraction) or not isinstance(b, Fraction):
        raise Unsupported("a remainder of what is not rational")
    if b == 0:
        raise Undefined("division by zero")
    return a % b


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


def _trigonometric(name: str) -> Callable[..., Value]:
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


def _over_range(combine: Callable[[Value, Value], Value], start: Fraction) -> Callable[..., Value]:
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
            total = evaluator._checked(combine(*_both(evaluator, total, evaluator(body))))
        evaluator.point.pop(index.name, None)
        if hidden is not None:
            evaluator.point[index.name] = hidden
        return total

    return compute


_ARC = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc"}
_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": _add,
    "*": _multiply,
    "/": _divide,
    "^": _power,
    "neg": _negate,
    "sqrt": _square_root,
    "root": _root,
    "!": _factorial,
    "binom": _binomial,
    "abs": _absolute,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "deg": _degrees,
    "percent": _percent,
    "exp": _exponential,
    "ln": _logarithm,
    "log": _bare_logarithm,
    "max": _extreme(max),
    "min": _extreme(min),
    "gcd": _divisors(gcd),
    "lcm": _divisors(lcm),
    "mod": _remainder,
    "sum": _over_range(lambda a, b: a + b, Fraction(0)),
    "prod": _over_range(lambda a, b: a * b, Fraction(1)),
    **{
        name: _trigonometric(name)
        for name in ["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth"]
    },
    **{name: _trigonometric(function) for name, function in _ARC.items()},
}
