"""Computes the value of an expression: exactly in rational numbers where it can, else to many digits.

Every operation is bounded, so no expression takes long or much memory. Nothing is ever evaluated as code.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sara.verifiers.math.arithmetic import ARITHMETIC
from sara.verifiers.math.functions import FUNCTIONS
from sara.verifiers.math.syntax import Apply, Based, Node, Number, Symbol
from sara.verifiers.math.values import (
    MAX_EXACT_BITS,
    MAX_MAGNITUDE_BITS,
    MAX_OPERATIONS,
    OutOfBounds,
    Undefined,
    Unsupported,
    Value,
)

_OPERATIONS = ARITHMETIC | FUNCTIONS


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
            try:
                return self.checked(compute(self, *node.arguments))
            except (ZeroDivisionError, OverflowError) as error:  # of mpmath, where a value is 0 to all its digits
                raise Undefined(node.operation) from error
        raise Unsupported(type(node).__name__)

    def number(self, value: Value) -> Value:
        """The value as a floating-point number of the context."""
        return self.context.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value

    def checked(self, value: Value) -> Value:
        """The value, if it is one and within bounds; rational numbers of too many bits go on as floating-point ones."""
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
