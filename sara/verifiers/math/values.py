"""What evaluation of expressions can come to: exact or floating-point values, or none, and its bounds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath

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


Operation = Callable[..., Value]
"""Takes an evaluator and the arguments of an operation as expressions."""
