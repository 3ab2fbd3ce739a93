r"""Compares two answers as wholes: values, lists, sets, points, intervals, matrices, equations, ratios, words.

Owns which forms may stand for each other (`x = 5` for `5`, `1, 2` for `\{2, 1\}`, `x < 3` for `(-\infty, 3)`) and
which may not (a set for a point, a column for a row). Verdicts are True, False or None where it cannot be decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from sara.verifiers.math.equality import are_equal, have_constant_ratio, real_value, spread_signs
from sara.verifiers.math.labels import name_alike, stated_value, symbols_of, take_label
from sara.verifiers.math.real_sets import NotASet, is_set, read_set, sets_are_equal
from sara.verifiers.math.syntax import (
    Apply,
    Based,
    Bracketed,
    Combined,
    Listing,
    Matrix,
    Node,
    Number,
    Quantity,
    Ratio,
    Relation,
    SetOf,
    Symbol,
    Words,
)
from sara.verifiers.math.units import conversion, measured

MAX_ITEMS = 60
MAX_COMPARED = 20
"""Members of a set up to which those that are equal, and not only written alike, count once."""


def compare(gold: Node, answer: Node) -> bool | None:
    """Whether an answer says the same as the gold; None where this cannot be decided here."""
    if gold == answer:
        return True
    if _measure_different_things(gold, answer):
        return False
    if isinstance(gold, Quantity) or isinstance(answer, Quantity):
        return _compare_quantities(gold, answer)
    if is_set(gold) or is_set(answer):
        return _compare_sets(gold, answer)
    gold_label, gold_value = take_label(gold)
    answer_label, answer_value = take_label(answer)
    if gold_label is not None or answer_label is not None:
        if isinstance(gold, Relation) and isinstance(answer, Relation) and not name_alike(gold_label, answer_label):
            is_solved = gold_label is not None and not symbols_of(gold_value)
            if is_solved and answer_label is None:
                return False  # `2x = 10` is the question to which `x = 5` is the answer
            return _compare_equations(gold, answer)
        return compare(gold_value, answer_value)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _compare_relations(gold, answer)
    return _compare_values(gold, answer)


def _measure_different_things(gold: Node, answer: Node) -> bool:
    """Whether both sides say what they measure (percent, an angle, a length), and not the same."""
    kinds = (_kind(gold), _kind(answer))
    return None not in kinds and kinds[0] != kinds[1]


def _kind(node: Node) -> str | None:
    if isinstance(node, Apply) and node.operation in ("percent", "deg"):
        return node.operation
    return measured(node.unit) if isinstance(node, Quantity) else None


def _compare_quantities(gold: Node, answer: Node) -> bool | None:
    """Units are looked at where both sides have one that is known: 5 cm is no 5 m, but 14 triangles are 14."""
    gold_unit, gold = (gold.unit, gold.value) if isinstance(gold, Quantity) else ("", gold)
    answer_unit, answer = (answer.unit, answer.value) if isinstance(answer, Quantity) else ("", answer)
    if len(gold_unit) == 1 and not answer_unit:
        answer = _without_letter(answer, gold_unit)
    factor = conversion(answer_unit, gold_unit)
    if factor is not None and factor != 1:
        return compare(gold, Apply("*", (Number(factor), answer)))
    return compare(gold, answer)


def _without_letter(node: Node, unit: str) -> Node:
    """`5` of `5m`, where the gold's unit says that the letter is one."""
    if isinstance(node, Apply) and node.operation == "*" and node.arguments[-1] == Symbol(unit):
        rest = node.arguments[:-1]
        return rest[0] if len(rest) == 1 else Apply("*", rest)
    return node


def _compare_relations(gold: Node, answer: Node) -> bool | None:
    """Equations against equations; a chain `1/2 = 0.5` or `2/3 ~ 0.67` against each of its sides."""
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        verdict = _compare_equations(gold, answer)
        if verdict is not None:
            return verdict
    if isinstance(answer, Relation):
        sides = _chain(stated_value(answer))
        if sides is None:
            return None if isinstance(gold, Relation) and symbols_of(answer) else False
        return _any(compare(gold, side) for side in sides)
    sides = _chain(gold)
    return False if sides is None else _any(compare(side, answer) for side in sides)


def _chain(node: Node) -> Sequence[Node] | None:
    """The sides of a chain of equal constants; None if it is an equation to solve, or its sides differ."""
    if not isinstance(node, Relation):
        return [node]
    if set(node.operators) - {"=", "~"} or any(symbols_of(side) for side in node.sides):
        return None
    for left, operator, right in zip(node.sides, node.operators, node.sides[1:], strict=False):
        if operator == "=" and compare(left, right) is not True:
            return None
        if operator == "~" and not _are_close(left, right):
            return None
    return node.sides


def _are_close(left: Node, right: Node) -> bool:
    values = [real_value(side.value if isinstance(side, Quantity) else side) for side in (left, right)]
    return None not in values and abs(float(values[0]) - float(values[1])) <= 0.01 * abs(float(values[0]))


def _any(verdicts) -> bool | None:
    seen = list(verdicts)
    return True if True in seen else (None if None in seen else False)


def _compare_equations(gold: Node, answer: Node) -> bool | None:
    """Two equations or inequalities are equal if their differences of sides have one constant ratio."""
    if not isinstance(gold, Relation) or not isinstance(answer, Relation):
        return False
    if len(gold.operators) != 1 or len(answer.operators) != 1:
        return gold.operators == answer.operators and _all(map(compare, gold.sides, answer.sides))
    left, right = gold.operators[0], answer.operators[0]
    if left == right == "=":
        return have_constant_ratio(_difference(gold), _difference(answer))
    order = {"<": ("<", False), "<=": ("<=", False), ">": ("<", True), ">=": ("<=", True)}
    if left not in order or right not in order or order[left][0] != order[right][0]:
        return False
    return have_constant_ratio(
        _difference(gold, order[left][1]), _difference(answer, order[right][1]), is_positive=True
    )


def _difference(node: Relation, is_turned: bool = False) -> Node:
    left, right = node.sides[::-1] if is_turned else node.sides
    return Apply("+", (left, Apply("neg", (right,))))


def _compare_sets(gold: Node, answer: Node) -> bool | None:
    """Sets of real numbers; brackets with variables at their ends are compared end by end."""
    gold, answer = _without_name(gold), _without_name(answer)
    try:
        reference = read_set(gold)
    except NotASet:
        if isinstance(gold, Bracketed) and isinstance(answer, Bracketed):
            return _compare_in_order(gold, answer)
        return _compare_equations(gold, answer) if isinstance(gold, Relation) else False
    try:
        return sets_are_equal(reference, read_set(answer))
    except NotASet:
        return False


def _without_name(node: Node) -> Node:
    """`(0, 1)` of `D = (0, 1)`."""
    label, value = take_label(node)
    return value if label is not None else node


def _compare_values(gold: Node, answer: Node) -> bool | None:
    if isinstance(gold, Words) or isinstance(answer, Words):
        return False
    if isinstance(gold, Combined) or isinstance(answer, Combined):
        return _compare_sets(gold, answer)
    if isinstance(_multiplied(gold), Matrix) or isinstance(_multiplied(answer), Matrix):
        return _compare_matrices(gold, answer)
    if isinstance(gold, Ratio) or isinstance(answer, Ratio):
        return _compare_ratios(gold, answer)
    if isinstance(gold, Bracketed) or isinstance(answer, Bracketed):
        return _compare_points(gold, answer)
    left, right = _members(gold), _members(answer)
    if left is None or right is None:
        return None if left is None else False
    if len(left) == len(right) == 1 and not isinstance(left[0], (SetOf, Listing)):
        if left[0] is gold and right[0] is answer:
            return _compare_numbers(gold, answer)
        return compare(left[0], right[0])
    return _match(left, right)


def _members(node: Node) -> list[Node] | None:
    """The values that a list, a set or an expression with plus-minus signs stands for; None if there are too many."""
    if not isinstance(node, (Listing, SetOf)):
        return spread_signs(node)
    members: list[Node] = []
    for item in _with_shared_label(node.items):
        values = spread_signs(item)
        if values is None:
            return None
        members += values
    if isinstance(node, SetOf):
        members = list(dict.fromkeys(members))
        if len(members) <= MAX_COMPARED:  # each with each: more would cost more than a second
            members = [item for place, item in enumerate(members) if not any(compare(item, m) for m in members[:place])]
    return members if len(members) <= MAX_ITEMS else None


def _with_shared_label(items: Sequence[Node]) -> list[Node]:
    """`n = 2, 3, 4` without its label, `a = 1, a = 2` without theirs; `x = 1, y = 2` as it is."""
    parts = [take_label(item) for item in items]
    labels = [label for label, _ in parts if label is not None]
    if labels and all(label == labels[0] for label in labels):
        return [value for _, value in parts]
    return list(items)


def _match(gold: Sequence[Node], answer: Sequence[Node]) -> bool | None:
    """Whether each value of the one is among the other, as often, in any order (names such as `x = 1` in order)."""
    if len(gold) != len(answer):
        return False
    left_over, is_open = list(answer), False
    for item in gold:
        for place, other in enumerate(left_over):
            verdict = compare(item, other)
            if verdict:
                del left_over[place]
                break
            is_open |= verdict is None
        else:
            return None if is_open else False
    return True


def _all(verdicts) -> bool | None:
    seen = list(verdicts)
    return False if False in seen else (None if None in seen else True)


def _compare_points(gold: Node, answer: Node) -> bool | None:
    """Points in order; a list without brackets is a point if its order is the same. A set is no point."""
    gold, answer = _without_point_name(gold), _without_point_name(answer)
    if not isinstance(gold, Bracketed) or not isinstance(answer, Bracketed):
        point, other = (gold, answer) if isinstance(gold, Bracketed) else (answer, gold)
        if not isinstance(other, Listing) or (point.opening, point.closing) != ("(", ")"):
            members = _members(other)
            if members is not None and len(members) == 1 and members[0] is not other:
                return compare(gold, members[0]) if other is answer else compare(members[0], answer)
            return False
        gold, answer = (Bracketed("(", tuple(_in_order(node)), ")") for node in (gold, answer))
    return _compare_in_order(gold, answer)


def _without_point_name(node: Node) -> Node:
    """`(2, 4)` of `P(2, 4)`."""
    if not isinstance(node, Apply) or node.operation != "*" or len(node.arguments) != 2:
        return node
    name, point = node.arguments
    return point if isinstance(point, Bracketed) and isinstance(name, Symbol) and name.name.isupper() else node


def _compare_in_order(gold: Bracketed, answer: Bracketed) -> bool | None:
    if (gold.opening, gold.closing) != (answer.opening, answer.closing) or len(gold.items) != len(answer.items):
        return False
    return _all(map(compare, gold.items, answer.items))


def _in_order(node: Bracketed | Listing) -> Sequence[Node]:
    """The values of `x = 2, y = 4` in the order of their names; of other lists as they stand."""
    parts = [take_label(item) for item in node.items]
    if all(isinstance(label, Symbol) for label, _ in parts):
        return [value for _, value in sorted(parts, key=lambda part: part[0].name)]
    return node.items


def _compare_matrices(gold: Node, answer: Node) -> bool | None:
    """Entry by entry; a vector may also be written as a point."""
    gold, answer = _multiplied(gold), _multiplied(answer)
    if not isinstance(gold, Matrix) or not isinstance(answer, Matrix):
        matrix, point = (gold, answer) if isinstance(gold, Matrix) else (answer, gold)
        entries = _vector(matrix)
        if entries is None or not isinstance(point, Bracketed) or len(point.items) != len(entries):
            return False
        if (point.opening, point.closing) != ("(", ")"):
            return False
        return _all(map(compare, entries, point.items))
    if gold.is_determinant != answer.is_determinant or len(gold.rows) != len(answer.rows):
        return False
    if len(gold.rows[0]) != len(answer.rows[0]):
        return False
    return _all(
        compare(a, b)
        for left, right in zip(gold.rows, answer.rows, strict=True)
        for a, b in zip(left, right, strict=True)
    )


def _multiplied(node: Node) -> Node:
    """A number times a matrix as one matrix."""
    if not isinstance(node, Apply) or node.operation not in ("*", "neg"):
        return node
    matrices = [argument for argument in node.arguments if isinstance(argument, Matrix)]
    if len(matrices) != 1 or matrices[0].is_determinant:
        return node
    others = tuple(argument for argument in node.arguments if not isinstance(argument, Matrix))
    rows = (tuple(Apply(node.operation, (*others, entry)) for entry in row) for row in matrices[0].rows)
    return Matrix(tuple(rows))


def _vector(matrix: Matrix) -> Sequence[Node] | None:
    if matrix.is_determinant:
        return None
    if len(matrix.rows) == 1:
        return matrix.rows[0]
    return [row[0] for row in matrix.rows] if len(matrix.rows[0]) == 1 else None


def _is_time(node: Ratio) -> bool:
    return len(node.parts) <= 3 and all(text.isdigit() and len(text) == 2 for text in node.texts[1:])


def _compare_ratios(gold: Node, answer: Node) -> bool | None:
    """Ratios by proportion, times of day part by part, a ratio of two and a number as a fraction."""
    if isinstance(gold, Ratio) and isinstance(answer, Ratio):
        if len(gold.parts) != len(answer.parts):
            return False
        if _is_time(gold):
            return _all(map(are_equal, gold.parts, answer.parts))
        return _all(
            are_equal(Apply("*", (gold.parts[0], b)), Apply("*", (a, answer.parts[0])))
            for a, b in zip(gold.parts[1:], answer.parts[1:], strict=True)
        )
    ratio, other = (gold, answer) if isinstance(gold, Ratio) else (answer, gold)
    if len(ratio.parts) != 2 or isinstance(other, (Listing, SetOf, Bracketed)):
        return False
    if _is_time(ratio) and not _is_in_lowest_terms(ratio):
        return False
    return are_equal(Apply("/", ratio.parts), other)


def _is_in_lowest_terms(ratio: Ratio) -> bool:
    above, below = (int(text) if text.isdigit() else 0 for text in ratio.texts)
    return gcd(above, below) == 1


def _compare_numbers(gold: Node, answer: Node) -> bool | None:
    """By value, also of numerals in a base; bare digits stand for a gold in a base, which the problem has stated."""
    if _has_base(gold) and not _has_base(answer):
        bare = _without_base(gold)
        return False if bare is None else are_equal(bare, answer)
    return are_equal(gold, answer)


def _has_base(node: Node) -> bool:
    return isinstance(node, Based) or (isinstance(node, Apply) and any(map(_has_base, node.arguments)))


def _without_base(node: Node) -> Node | None:
    """`28` of `28_9` and `-37` of `-37_8`; None of anything else."""
    if isinstance(node, Based):
        return Number(Fraction(node.digits)) if node.digits.isdigit() else None
    if isinstance(node, Apply) and node.operation == "neg":
        inner = _without_base(node.arguments[0])
        return None if inner is None else Apply("neg", (inner,))
    return None
