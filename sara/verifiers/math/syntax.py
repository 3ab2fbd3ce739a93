"""Syntax trees of answers. Plain values: no evaluation, no comparison."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Number:
    value: Fraction


@dataclass(frozen=True)
class Symbol:
    """A variable or a named constant (`pi`, `e`, `i`, `inf`), by its canonical name."""

    name: str


@dataclass(frozen=True)
class Apply:
    """An operation on expressions: + and * of many, / ^ neg pm mp sqrt root ! binom abs floor ceil deg percent sum
    prod, and functions by their name."""

    operation: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Quantity:
    """A value with a unit, as one canonical key such as `cm^2` or `hours`."""

    value: Node
    unit: str


@dataclass(frozen=True)
class Based:
    """A numeral in a stated base: `28_9`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """`1 : 2 : 3`, also a time of day."""

    parts: tuple[Node, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Values side by side, in no order: `1, 2`, `1 or 2`. joint is `and`, `or` or a comma."""

    items: tuple[Node, ...]
    joint: str = ","


@dataclass(frozen=True)
class SetOf:
    r"""`\{1, 2\}`; the empty set has no items."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Bracketed:
    """Two or more values in round, square or angle brackets: a point, a vector or an interval."""

    opening: str
    items: tuple[Node, ...]
    closing: str


@dataclass(frozen=True)
class Combined:
    r"""Sets joined by `\cup`, `\cap` or `\setminus`, from left to right."""

    operation: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Relation:
    """Sides joined by `= < > <= >= != ~ in`; one operator fewer than sides."""

    sides: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of equal length; is_determinant where bars stand around it."""

    rows: tuple[tuple[Node, ...], ...]
    is_determinant: bool = False


@dataclass(frozen=True)
class Words:
    """Text that is no mathematics, folded to small letters."""

    text: str


Node = (
    Number
    | Symbol
    | Apply
    | Quantity
    | Based
    | Ratio
    | Listing
    | SetOf
    | Bracketed
    | Combined
    | Relation
    | Matrix
    | Words
)


def names(text: str) -> frozenset[str]:
    """The names in a line of them."""
    return frozenset(text.split())


REALS = Symbol("reals")
INFINITY = Symbol("inf")
NAMED_SETS = frozenset({"reals", "integers", "naturals", "rationals", "complexes"})
"""Names of symbols that are sets, not numbers."""
CONSTANTS = frozenset({"pi", "e", "i", "inf"})
