r"""What an answer names and what it says of it: `x` and 5 of `x = 5`, `f^{-1}(x)`, `a:b:c`, `m + n`.

Owns which left sides are names, which are expressions that were asked for, and which are equations yet to be solved.
"""

from __future__ import annotations

from fractions import Fraction

from sara.verifiers.math.evaluation import free_symbols
from sara.verifiers.math.syntax import (
    Apply,
    Bracketed,
    Listing,
    Node,
    Number,
    Quantity,
    Ratio,
    Relation,
    SetOf,
    Symbol,
    Words,
)

_FUNCTION_NAMES = frozenset(map(Symbol, "fghFGH"))
_MINUS_ONE = Apply("neg", (Number(Fraction(1)),))


def take_label(node: Node) -> tuple[Node | None, Node]:
    """`x` and `5` of `x = 5`, also `f(x)` and `(x, y)`; None and the node itself where nothing is named."""
    if not isinstance(node, Relation) or node.operators[0] not in ("=", "in", "~"):
        return None, node
    label, rest = node.sides[0], node.sides[1:]
    if node.operators == ("=",) and not _is_label(label) and isinstance(rest[0], Symbol) and not symbols_of(label):
        label, rest = rest[0], (label,)  # `5 = x`
    value = rest[0] if len(rest) == 1 else Relation(rest, node.operators[1:])
    if not _is_label(label) or symbols_of(label) & symbols_of(value) - {"x", "t", "n", "y", "z", "a", "b"}:
        return None, node
    if isinstance(label, Symbol) and label.name in symbols_of(value):
        return None, node
    return label, value


def name_alike(gold: Node | None, answer: Node | None) -> bool:
    """Equal names, or a function's name such as `f(x)` beside another name for its values."""
    if gold is None or answer is None:
        return False
    return gold == answer or isinstance(gold, Apply) != isinstance(answer, Apply)


def _is_label(node: Node) -> bool:
    r"""A name: `x`, `AB`, `f(x)`, `f^{-1}(x)`, `(x, y)`, `a:b:c`, `\frac{dy}{dx}`, words."""
    if isinstance(node, (Symbol, Words)):
        return True
    if isinstance(node, Bracketed):
        return all(isinstance(item, Symbol) for item in node.items)
    if isinstance(node, Ratio):
        return all(_is_label(part) and symbols_of(part) for part in node.parts)
    if isinstance(node, Apply) and node.operation == "*":
        return all(_is_label(argument) for argument in node.arguments)
    if isinstance(node, Apply) and node.operation == "^":
        return node.arguments[0] in _FUNCTION_NAMES and node.arguments[1] == _MINUS_ONE
    return _is_derivative(node)


def _is_derivative(node: Node) -> bool:
    if not isinstance(node, Apply) or node.operation != "/":
        return False
    return all(
        isinstance(part, Apply)
        and part.operation == "*"
        and part.arguments[0] == Symbol("d")
        and len(part.arguments) == 2
        for part in node.arguments
    )


def symbols_of(node: Node) -> frozenset[str]:
    if isinstance(node, Relation):
        return frozenset().union(*map(symbols_of, node.sides))
    if isinstance(node, (Listing, SetOf, Bracketed)):
        return frozenset().union(*map(symbols_of, node.items))
    if isinstance(node, Ratio):
        return frozenset().union(*map(symbols_of, node.parts))
    return free_symbols(node.value if isinstance(node, Quantity) else node)


def stated_value(node: Relation) -> Node:
    r"""`5` of `m + n = 5`, `f(2) = 5`, `\frac{a}{b} = 5`: what an expression that was asked for comes to.

    Not of `2x = 5`, which has yet to be solved.
    """
    asked, stated = node.sides[0], node.sides[1:]
    if node.operators[0] != "=" or not symbols_of(asked) or any(map(symbols_of, stated)) or _is_multiple(asked):
        return node
    return stated[0] if len(stated) == 1 else Relation(stated, node.operators[1:])


def _is_multiple(node: Node) -> bool:
    """`2x`, `-x` or `x/3`, but not `f(2)`: a number and then one variable."""
    if not isinstance(node, Apply) or node.operation not in ("*", "neg", "/"):
        return False
    letters = [argument for argument in node.arguments if symbols_of(argument)]
    is_call = node.operation == "*" and bool(symbols_of(node.arguments[0]))
    return len(letters) == 1 and isinstance(letters[0], Symbol) and not is_call
