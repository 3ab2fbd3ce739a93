"""Exact verifier for Countdown: does the answer use every number once and equal the target?

The answer is read by a grammar of its own (numbers, + - * /, brackets, signs) and computed in
rational numbers. Nothing of the completion is ever evaluated as code.

Decisions: a sign before a number or a bracket is allowed, as in the reference implementation (it uses no number);
an equation `a + b = c` is no expression, so it is wrong, whatever stands on its sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral

from sara.verifiers.base import Verdict
from sara.verifiers.reasoning import said_after_reasoning

MAX_EXPRESSION_CHARS = 500
MAX_DEPTH = 50
MAX_DIGITS = 12
"""Of one number; numbers of Countdown have two or three."""

_TOKEN = re.compile(r"[ \t]*(?:([0-9]+)|([-+*/()]))", re.ASCII)


class _NotAnExpression(ValueError):
    """The answer is no arithmetic expression, or has no value (division by zero)."""


def verify_countdown(response: str, numbers: Sequence[int], target: int) -> Verdict:
    """Say whether the last `<answer>` of a response makes the target from the numbers.

    response   any text; what stands before the last `</think>` is not looked at
    numbers    the available integers >= 0; each must be used exactly once
    target     the integer to reach, compared exactly (no tolerance)
    returns    RIGHT or WRONG; UNSCORABLE only for a faulty reference: no numbers, a negative one, or what is no integer
    """
    if not _is_scorable(numbers, target):
        return Verdict.UNSCORABLE
    expression = extract_answer(response)
    if expression is None:
        return Verdict.WRONG
    try:
        value, used = _Parser(expression).parse()
    except _NotAnExpression:
        return Verdict.WRONG
    is_right = value == target and sorted(used) == sorted(numbers)
    return Verdict.RIGHT if is_right else Verdict.WRONG


def extract_answer(response: str) -> str | None:
    """Text inside the last closed `<answer> ... </answer>` after the last `</think>`; None without one.

    A `<think>` that is still open means that the reasoning was cut off: there is no answer.
    """
    said = said_after_reasoning(response)
    if said is None:
        return None
    _, opening, inside = said.rpartition("</answer>")[0].rpartition("<answer>")
    if not opening:
        return None
    return inside.partition("</answer>")[0].strip()


def _is_scorable(numbers: object, target: object) -> bool:
    try:
        available = list(numbers)
    except TypeError:
        return False
    is_integral = all(isinstance(value, Integral) and not isinstance(value, bool) for value in [*available, target])
    return bool(available) and is_integral and min(available) >= 0


class _Parser:
    """Recursive descent over  sum := product (('+'|'-') product)*,  product := factor (('*'|'/') factor)*,
    factor := ('+'|'-') factor | number | '(' sum ')'."""

    def __init__(self, expression: str):
        self.tokens = _tokenize(expression)
        self.position = 0
        self.used: list[int] = []

    def parse(self) -> tuple[Fraction, list[int]]:
        """Value of the expression and the numbers it uses, in order; raises _NotAnExpression."""
        value = self._sum(depth=0)
        if self._peek() is not None:
            raise _NotAnExpression(f"unexpected {self._peek()!r}")
        return value, self.used

    def _peek(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _next(self) -> str | None:
        token = self._peek()
        self.position += 1
        return token

    def _sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self._peek() in ("+", "-"):
            sign = 1 if self._next() == "+" else -1
            value += sign * self._product(depth)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while self._peek() in ("*", "/"):
            if self._next() == "*":
                value *= self._factor(depth)
                continue
            divisor = self._factor(depth)
            if divisor == 0:
                raise _NotAnExpression("division by zero")
            value /= divisor
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            raise _NotAnExpression("nested too deeply")
        token = self._next()
        if token is None:
            raise _NotAnExpression("ends too early")
        if token.isdigit():
            self.used.append(int(token))
            return Fraction(int(token))
        if token in ("+", "-"):
            value = self._factor(depth + 1)
            return value if token == "+" else -value
        if token == "(":
            value = self._sum(depth + 1)
            if self._next() != ")":
                raise _NotAnExpression("a bracket is not closed")
            return value
        raise _NotAnExpression(f"unexpected {token!r}")


def _tokenize(expression: str) -> list[str]:
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise _NotAnExpression("too long")
    tokens, position = [], 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise _NotAnExpression(f"unexpected {expression[position]!r}")
        if len(match.group(1) or "") > MAX_DIGITS:
            raise _NotAnExpression("too many digits")
        tokens.append(match.group(1) or match.group(2))
        position = match.end()
    return tokens
