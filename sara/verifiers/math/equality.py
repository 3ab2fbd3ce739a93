"""Decides whether two expressions are equal: constants by their value, formulas by their values at many points.

Rational values are compared exactly. Other values are compared to 60 digits, and where these agree to 250 of 600:
different ones differ for certain; equal ones agree to more digits than a short formula does by chance.
Formulas are compared where the first is real (the domain a reader has in mind: x >= 0 in the square root of x).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from zlib import crc32

import mpmath

from sara.verifiers.math.evaluation import Evaluator, free_symbols
from sara.verifiers.math.syntax import Apply, Node, Number
from sara.verifiers.math.values import OutOfBounds, Undefined, Unsupported, Value

COARSE_DIGITS, FINE_DIGITS = 60, 600
AGREEMENT_DIGITS = 45
"""Values equal to so many of the coarse digits are looked at in the fine ones."""
FINE_AGREEMENT_DIGITS = 250
"""Of so many: a root of what cancels keeps half of its digits."""
MAX_SIGNS = 4
"""Expressions with more plus-minus signs than this are not spread out."""


def _context(digits: int):
    context = mpmath.MPContext()
    context.dps = digits
    return context


class _Numbers:
    """The two precisions, and the lock that mpmath needs: its caches of constants are not safe in threads."""

    def __init__(self):
        self.lock = threading.RLock()
        self.coarse, self.fine = _context(COARSE_DIGITS), _context(FINE_DIGITS)


_numbers = _Numbers()


def _renew_after_fork() -> None:
    global _numbers
    _numbers = _Numbers()


os.register_at_fork(after_in_child=_renew_after_fork)


def are_equal(gold: Node, answer: Node) -> bool | None:
    """Whether two scalar expressions are equal; None where this cannot be decided here.

    90 degrees equals 90 and pi/2, 20 percent equals 20 and 1/5, log is ln or to the base 10: both sides are read in one
    way, then in the other.
    An answer without a value, or too great to compute, equals nothing.
    """
    if gold == answer:
        return True
    if isinstance(gold, Number) and isinstance(answer, Number):
        return gold.value == answer.value
    operations = _operations(gold) | _operations(answer)
    readings = product(*((True, False) if name in operations else (False,) for name in ("deg", "percent", "log")))
    verdicts = []
    with _numbers.lock:
        for reading in readings:
            verdict = _compare(gold, answer, *reading)
            if verdict:
                return True
            verdicts.append(verdict)
    return None if None in verdicts else False


def real_value(node: Node) -> mpmath.mpf | None:
    """Value of a constant as a real number of many digits; None where it is not one."""
    with _numbers.lock:
        try:
            evaluator = Evaluator(_numbers.coarse)
            return evaluator.real(evaluator.number(evaluator(node)))
        except (Undefined, OutOfBounds, Unsupported):
            return None


def have_constant_ratio(gold: Node, answer: Node, is_positive: bool = False) -> bool | None:
    """Whether gold / answer is one constant (above zero) at all points: equations with equal solutions."""
    names = free_symbols(gold) | free_symbols(answer)
    ratios = []
    with _numbers.lock:
        for point in _points(names):
            try:
                left, right = (Evaluator(_numbers.coarse, point)(node) for node in (gold, answer))
                if left == 0 or right == 0:
                    continue
                ratios.append(_ratio(left, right))
            except (Undefined, OutOfBounds):
                continue
            except Unsupported:
                return None
        if len(ratios) < 3:
            return None
        tolerance = _numbers.coarse.mpf(10) ** -AGREEMENT_DIGITS
        if any(abs(ratio - ratios[0]) > tolerance * abs(ratios[0]) for ratio in ratios[1:]):
            return False
        return not is_positive or (not isinstance(ratios[0], _numbers.coarse.mpc) and ratios[0] > 0)


def _ratio(left: Value, right: Value):
    convert = Evaluator(_numbers.coarse).number
    return convert(left) / convert(right)


def spread_signs(node: Node) -> list[Node] | None:
    r"""The expressions that one with plus-minus signs stands for: `1 \pm 2` is 1 + 2 and 1 - 2; None if too many.

    Signs are chosen apart from each other, but together where a minus-plus stands among them.
    """
    signs = _signs(node)
    if not signs:
        return [node]
    if len(signs) > MAX_SIGNS:
        return None
    choices = (
        [(plus,) * len(signs) for plus in (True, False)] if "mp" in signs else product((True, False), repeat=len(signs))
    )
    return [_with_signs(node, iter(choice)) for choice in choices]


def _signs(node: Node) -> list[str]:
    if not isinstance(node, Apply):
        return []
    own = [node.operation] if node.operation in ("pm", "mp") else []
    return own + [sign for argument in node.arguments for sign in _signs(argument)]


def _with_signs(node: Node, choice) -> Node:
    if not isinstance(node, Apply):
        return node
    operation = node.operation
    if operation in ("pm", "mp"):
        is_plus = next(choice) == (operation == "pm")
        arguments = tuple(_with_signs(argument, choice) for argument in node.arguments)
        if len(arguments) == 1:
            return arguments[0] if is_plus else Apply("neg", arguments)
        left, right = arguments
        return Apply("+", (left, right if is_plus else Apply("neg", (right,))))
    return Apply(operation, tuple(_with_signs(argument, choice) for argument in node.arguments))


def _operations(node: Node) -> frozenset[str]:
    if not isinstance(node, Apply):
        return frozenset()
    return frozenset({node.operation}).union(*(_operations(argument) for argument in node.arguments))


def _compare(gold: Node, answer: Node, *readings: bool) -> bool | None:
    names = free_symbols(gold) | free_symbols(answer)
    if not names:
        return _compare_at(gold, answer, {}, *readings)
    seen, is_complex = 0, False
    for point in _points(names, _operations(gold) | _operations(answer)):
        try:
            reference = Evaluator(_numbers.coarse, point, *readings)
            value = reference(gold)
            reference.real(value)
        except (Undefined, OutOfBounds):
            continue
        except Unsupported as error:
            if str(error) != "not real":
                return None
            is_complex = True
            continue
        verdict = _compare_at(gold, answer, point, *readings)
        if verdict is not True:
            return verdict
        seen += 1
    if seen:
        return True if seen >= 3 or is_complex else None
    return _compare_complex(gold, answer, names, *readings) if is_complex else None


def _compare_complex(gold: Node, answer: Node, names: frozenset[str], *readings: bool) -> bool | None:
    """Where the gold is real nowhere: equality at all points where it has a value, real or not."""
    points = _points(names, _operations(gold) | _operations(answer))
    verdicts = [_compare_at(gold, answer, point, *readings) for point in points]
    if False in verdicts:
        return False
    return True if verdicts.count(True) >= 3 else None


def _compare_at(gold: Node, answer: Node, point: Mapping[str, Fraction], *readings: bool) -> bool | None:
    """Equality at one point; None if the gold has no value there that is computed here."""
    try:
        left = Evaluator(_numbers.coarse, point, *readings)(gold)
    except (Undefined, OutOfBounds, Unsupported):
        return None
    try:
        right = Evaluator(_numbers.coarse, point, *readings)(answer)
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return left == right
        gap, size = _gap(_numbers.coarse, left, right)
        if _numbers.coarse.isinf(gap):
            return False
        if gap == 0 or gap <= _numbers.coarse.mpf(10) ** -AGREEMENT_DIGITS * max(size, 1):
            return _agree_finely(gold, answer, point, gap, readings)
        return False
    except (Undefined, OutOfBounds):
        return False
    except Unsupported:
        return None


def _agree_finely(gold: Node, answer: Node, point: Mapping[str, Fraction], coarse_gap, readings) -> bool:
    """Equal if the difference is nothing beside the values, or shrinks with the precision to nothing."""
    left, right = (Evaluator(_numbers.fine, point, *readings)(node) for node in (gold, answer))
    gap, size = _gap(_numbers.fine, left, right)
    tolerance = _numbers.fine.mpf(10) ** -FINE_AGREEMENT_DIGITS
    return bool(gap <= tolerance * size or gap <= tolerance * coarse_gap)


def _gap(context, left: Value, right: Value):
    """How far two values lie apart, and the size of the greater one."""
    convert = Evaluator(context).number
    left, right = context.convert(convert(left)), context.convert(convert(right))
    if left == right:
        return context.zero, abs(left)
    gap = abs(left - right)
    return (context.inf if context.isnan(gap) else gap), max(abs(left), abs(right))


def _points(names: frozenset[str], operations: frozenset[str] = frozenset()) -> list[dict[str, Fraction]]:
    """Points to compare formulas at, the same each time: positive, small, mixed and negative values, whole numbers.

    Formulas with sums or products over ranges are compared at whole numbers alone.
    """
    whole = [
        {name: Fraction(crc32(f"whole {place} {name}".encode()) % 11 + 2) for name in sorted(names)}
        for place in range(4)
    ]
    if operations & {"sum", "prod"}:
        return whole
    points = []
    for place, (low, spread, sign) in enumerate(
        [(1, 2, 1), (0, 1, 1), (3, 4, 1), (0, 1, -1), (1, 1, -1), (0, 3, 0), (0, 1, 1), (0, 1, -1), (12, 9, 1)]
    ):
        point = {}
        for name in sorted(names):
            chance = crc32(f"{place} {name}".encode())
            value = low + spread * Fraction(chance % 99_991 + 1, 99_993)
            point[name] = value * (sign or (-1) ** (chance // 99_991))
        points.append(point)
    return points + whole
