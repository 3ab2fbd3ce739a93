r"""Sets of real numbers as intervals and points: `(-\infty, 3) \cup (3, \infty)` and `x \ne 3` are the same set.

Owns the reading of brackets, inequalities and unions as sets of constants. Ends are compared by `equality`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key

from sara.verifiers.math.equality import are_equal, real_value, spread_signs
from sara.verifiers.math.evaluation import free_symbols
from sara.verifiers.math.syntax import (
    INFINITY,
    REALS,
    Apply,
    Bracketed,
    Combined,
    Listing,
    Node,
    Number,
    Quantity,
    Relation,
    SetOf,
    Symbol,
)

MAX_PIECES = 60


class NotASet(ValueError):
    """The tree does not say a set of real numbers whose ends are constants."""


@dataclass(frozen=True)
class Piece:
    """An interval, or a point where both ends are the same node."""

    low: Node
    has_low: bool
    high: Node
    has_high: bool


_MINUS_INFINITY = Apply("neg", (INFINITY,))
_ALL = (Piece(_MINUS_INFINITY, False, INFINITY, False),)
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}


def read_set(node: Node) -> tuple[Piece, ...]:
    """The set as sorted pieces that do not touch; raises NotASet."""
    return _joined(_pieces(node))


def sets_are_equal(gold: tuple[Piece, ...], answer: tuple[Piece, ...]) -> bool:
    """Whether two sets as `read_set` gives them have the same pieces."""
    return len(gold) == len(answer) and all(
        left.has_low == right.has_low
        and left.has_high == right.has_high
        and are_equal(left.low, right.low) is True
        and are_equal(left.high, right.high) is True
        for left, right in zip(gold, answer, strict=True)
    )


def is_set(node: Node) -> bool:
    """Whether the tree can only be a set of numbers: half-open brackets, unions, inequalities, the reals."""
    if isinstance(node, Bracketed):
        return len(node.items) == 2 and (node.opening, node.closing) in (("[", ")"), ("(", "]"), ("[", "]"))
    if isinstance(node, Relation):
        return not set(node.operators) & {"=", "~"}
    if isinstance(node, Listing):
        return all(isinstance(item, Relation) and is_set(item) for item in node.items)
    return isinstance(node, Combined) or node == REALS


def _pieces(node: Node) -> tuple[Piece, ...]:
    if isinstance(node, Quantity):
        return _pieces(node.value)
    if isinstance(node, Combined):
        left, right = _joined(_pieces(node.left)), _joined(_pieces(node.right))
        if node.operation == "cup":
            return left + right
        return _intersection(left, right if node.operation == "cap" else _complement(right))
    if isinstance(node, Bracketed):
        return _interval(node)
    if isinstance(node, SetOf):
        return tuple(Piece(item, True, item, True) for given in node.items for item in spread_signs(given) or _fail())
    if isinstance(node, Relation):
        return _inequality(node)
    if isinstance(node, Listing):
        return _several(node)
    if node == REALS:
        return _ALL
    if isinstance(node, (Number, Symbol, Apply)):
        return _pieces(SetOf((node,)))
    raise NotASet(type(node).__name__)


def _fail():
    raise NotASet("too many signs")


def _interval(node: Bracketed) -> tuple[Piece, ...]:
    if len(node.items) != 2 or node.opening not in "([" or node.closing not in ")]":
        raise NotASet("no interval")
    low, high = node.items
    return (_proper(Piece(low, node.opening == "[", high, node.closing == "]")),)


def _proper(piece: Piece) -> Piece:
    """Infinite ends are never part of a set; the low end must lie below the high one."""
    low, high = _value(piece.low), _value(piece.high)
    if low > high:
        raise NotASet("ends in the wrong order")
    infinity = float("inf")
    return Piece(piece.low, piece.has_low and low != -infinity, piece.high, piece.has_high and high != infinity)


def _value(node: Node):
    value = None if free_symbols(node) else real_value(node)
    if value is None:
        raise NotASet("an end that is no real constant")
    return value


def _several(node: Listing) -> tuple[Piece, ...]:
    sets = [_joined(_pieces(item)) for item in node.items]
    result = sets[0]
    for pieces in sets[1:]:
        result = _intersection(result, pieces) if node.joint == "and" else result + pieces
    return result


def _inequality(node: Relation) -> tuple[Piece, ...]:
    if node.operators == ("in",):
        if _is_variable(node.sides[0]):
            return _pieces(node.sides[1])
        raise NotASet("membership of no variable")
    variables = [place for place, side in enumerate(node.sides) if _is_variable(side) or _is_distance(side)]
    if len(variables) != 1 or "in" in node.operators or "~" in node.operators:
        raise NotASet("no inequality of one variable")
    place = variables[0]
    half = _half_of_distance if _is_distance(node.sides[place]) else _half
    result = _ALL
    for here, operator in enumerate(node.operators):
        if here == place:
            result = _intersection(result, half(operator, node.sides[here + 1]))
        elif here + 1 == place:
            result = _intersection(result, half(_TURNED[operator], node.sides[here]))
        else:
            raise NotASet("a chain of constants")
    return result


def _is_variable(node: Node) -> bool:
    r"""A variable, or a function of one such as `g(x)`."""
    if isinstance(node, Symbol):
        return bool(free_symbols(node))
    return (
        isinstance(node, Apply)
        and node.operation == "*"
        and all(isinstance(argument, Symbol) for argument in node.arguments)
        and node.arguments[0].name in "fghFGHP"
    )


def _is_distance(node: Node) -> bool:
    """`|x|` alone: an inequality of anything longer is a question, not its answer."""
    return isinstance(node, Apply) and node.operation == "abs" and _is_variable(node.arguments[0])


def _half_of_distance(operator: str, end: Node) -> tuple[Piece, ...]:
    """`|x| < 2` lies between -2 and 2, `|x| > 2` outside of them."""
    if _value(end) < 0:
        raise NotASet("a distance below zero")
    other = Apply("neg", (end,))
    if operator in ("<", "<="):
        return _intersection(_half(operator, end), _half(_TURNED[operator], other))
    if operator in (">", ">="):
        return _half(_TURNED[operator], other) + _half(operator, end)
    return _intersection(_half(operator, other), _half(operator, end))


def _half(operator: str, end: Node) -> tuple[Piece, ...]:
    _value(end)
    has_end = operator in ("<=", ">=")
    if operator in ("<", "<="):
        return (Piece(_MINUS_INFINITY, False, end, has_end),)
    if operator in (">", ">="):
        return (Piece(end, has_end, INFINITY, False),)
    if operator == "!=":
        return (Piece(_MINUS_INFINITY, False, end, False), Piece(end, False, INFINITY, False))
    return (Piece(end, True, end, True),)


def _order(left: Node, right: Node) -> int:
    if left == right or are_equal(left, right) is True:
        return 0
    return -1 if _value(left) < _value(right) else 1


def _joined(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Sorted pieces, those that overlap or touch made one."""
    if len(pieces) > MAX_PIECES:
        raise NotASet("too many pieces")
    alive = [piece for piece in pieces if _order(piece.low, piece.high) < 0 or (piece.has_low and piece.has_high)]
    alive.sort(key=cmp_to_key(lambda a, b: _order(a.low, b.low) or b.has_low - a.has_low))
    result: list[Piece] = []
    for piece in alive:
        if not result or not _touches(result[-1], piece):
            result.append(piece)
            continue
        last = result[-1]
        order = _order(last.high, piece.high)
        high, has_high = (piece.high, piece.has_high) if order < 0 else (last.high, last.has_high)
        if order == 0:
            has_high = last.has_high or piece.has_high
        result[-1] = Piece(last.low, last.has_low, high, has_high)
    return tuple(result)


def _touches(left: Piece, right: Piece) -> bool:
    order = _order(left.high, right.low)
    return order > 0 or (order == 0 and (left.has_high or right.has_low))


def _intersection(left: tuple[Piece, ...], right: tuple[Piece, ...]) -> tuple[Piece, ...]:
    pieces = []
    for a in left:
        for b in right:
            low_order, high_order = _order(a.low, b.low), _order(a.high, b.high)
            low, has_low = (a.low, a.has_low) if low_order > 0 else (b.low, b.has_low)
            high, has_high = (a.high, a.has_high) if high_order < 0 else (b.high, b.has_high)
            if low_order == 0:
                has_low = a.has_low and b.has_low
            if high_order == 0:
                has_high = a.has_high and b.has_high
            order = _order(low, high)
            if order < 0 or (order == 0 and has_low and has_high):
                pieces.append(Piece(low, has_low, high, has_high))
    return _joined(tuple(pieces))


def _complement(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    result, low, has_low = [], _MINUS_INFINITY, False
    for piece in pieces:
        result.append(Piece(low, has_low, piece.low, not piece.has_low))
        low, has_low = piece.high, not piece.has_high
    result.append(Piece(low, has_low, INFINITY, False))
    return _joined(tuple(p for p in result if p.low != INFINITY))
