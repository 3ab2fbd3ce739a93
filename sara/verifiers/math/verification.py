r"""The math verifier's order of decisions: same spelling, words and choices, exact values, then symbolic algebra.

Text of a model is read by grammars alone: nothing of it is ever evaluated as code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sara.verifiers.base import Verdict
from sara.verifiers.math.boxes import final_answer
from sara.verifiers.math.comparison import compare
from sara.verifiers.math.lexer import TooComplex, Unreadable
from sara.verifiers.math.parser import MAX_ANSWER_CHARS, parse_answer
from sara.verifiers.math.symbolic import Outcome, symbolic_comparison
from sara.verifiers.math.syntax import Node, Number, Words
from sara.verifiers.math.texts import choice, spelling, words

CACHED_VERDICTS = 50_000
CACHED_GOLDS = 10_000

MAX_SYMBOLIC_CHARS = 400
"""Longer answers than this are not given to symbolic algebra."""
_SYMBOLIC_COMMANDS = re.compile(
    r"\\(?:int|iint|oint|lim|sum|prod|det|Re|Im|mod|pmod|operatorname|begin\{cases)(?![A-Za-z])"
)
_CODE = re.compile(r"__|[;@#`\"]|[A-Za-z]\.[A-Za-z]|\(\)|'[A-Za-z/]")


@dataclass(frozen=True)
class Grade:
    """A verdict, the answer that it is about (None without a box), and why in a word or two."""

    verdict: Verdict
    answer: str | None
    reason: str


def verify_math(response: str, gold: str) -> Verdict:
    r"""Say whether the last `\boxed{}` of a response says what the gold answer says.

    response   any text; what stands before the last `</think>` is not looked at, nor is anything outside the box
    gold       the reference answer in LaTeX, without `\boxed`
    returns    RIGHT or WRONG; UNSCORABLE for a faulty gold (`is_scorable_gold`), or where the comparison failed for
               reasons outside both texts (no worker could be started, a machine too busy to run it)

    An answer that takes too long or too much memory to compare is WRONG. Safe to call from any thread, with any text.
    """
    return grade_math(response, gold).verdict


def grade_math(response: str, gold: str) -> Grade:
    """The verdict of `verify_math` with the answer that was read and the reason."""
    answer = final_answer(response)
    if not is_scorable_gold(gold):
        return Grade(Verdict.UNSCORABLE, answer, "faulty gold")
    if answer is None:
        return Grade(Verdict.WRONG, None, "no box")
    if not answer.strip() or len(answer) > MAX_ANSWER_CHARS:
        return Grade(Verdict.WRONG, answer, "empty box" if not answer.strip() else "too long")
    try:
        verdict, reason = _decide(gold, answer)
    except (_NoComparison, RecursionError):  # a caller near its limit of recursion
        return Grade(Verdict.UNSCORABLE, answer, "comparison failed")
    return Grade(verdict, answer, reason)


def prepare_math() -> None:
    """Begin to start what the first symbolic comparison would wait for, one to three seconds; returns at once."""
    symbolic_comparison().prepare()


def is_scorable_gold(gold: object) -> bool:
    """Whether answers can be compared with a gold: it is text, not too long, and read as mathematics or as words."""
    try:
        return isinstance(gold, str) and _read_gold(gold) is not None
    except _NoComparison:
        return False


class _NoComparison(RuntimeError):
    """The workers failed: a verdict now and not one to remember."""


@dataclass(frozen=True)
class _Gold:
    """A gold in all its readings; tree is None if only words or symbolic algebra can compare it."""

    spelling: str
    words: str
    choice: str | None
    tree: Node | None
    is_text: bool


@lru_cache(CACHED_GOLDS)
def _read_gold(gold: str) -> _Gold | None:
    if len(gold) > MAX_ANSWER_CHARS or not _is_balanced(gold) or not words(gold):
        return None
    is_text = "\\" not in words(gold)
    try:
        tree = parse_answer(gold)
    except Unreadable:
        tree = None
    if tree is None and not is_text and not (_may_be_mathematics(gold) and _is_read_symbolically(gold)):
        return None
    return _Gold(spelling(gold), words(gold), choice(gold), tree, (tree is None and is_text) or isinstance(tree, Words))


def _is_read_symbolically(gold: str) -> bool:
    outcome = symbolic_comparison().compare(gold, None)
    if outcome is Outcome.FAILED:
        raise _NoComparison
    return outcome is Outcome.DIFFERENT


def _is_balanced(text: str) -> bool:
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth < 0:
            return False
    return depth == 0


@lru_cache(CACHED_VERDICTS)
def _decide(gold: str, answer: str) -> tuple[Verdict, str]:
    reference = _read_gold(gold)
    if spelling(answer) == reference.spelling:
        return Verdict.RIGHT, "same spelling"
    chosen = choice(answer)
    if reference.choice is not None and chosen is not None:
        return _verdict(chosen == reference.choice), "choice"
    if reference.is_text and words(answer) == reference.words:
        return Verdict.RIGHT, "same words"
    try:
        tree = parse_answer(answer)
    except TooComplex as error:
        return Verdict.WRONG, str(error)
    except Unreadable:
        tree = None
    if reference.tree is not None and tree is not None:
        if not (isinstance(reference.tree, Number) and isinstance(tree, Number)):
            symbolic_comparison().prepare()  # where answers are more than numbers, one will need it sooner or later
        verdict = compare(reference.tree, tree)
        if verdict is not None:
            return _verdict(verdict), "exact comparison"
    elif reference.is_text or (tree is None and not _may_be_mathematics(answer)):
        return Verdict.WRONG, "other words" if reference.is_text else "not mathematics"
    return _compare_symbolically(reference, gold, answer)


def _may_be_mathematics(text: str) -> bool:
    """Whether symbolic algebra may read what the grammar here does not: it has a command, and nothing of a program."""
    return (
        len(text) <= MAX_SYMBOLIC_CHARS
        and _SYMBOLIC_COMMANDS.search(text) is not None
        and _CODE.search(text) is None
        and re.search(r"[0-9A-Za-z]", re.sub(r"\\[A-Za-z]+", "", text)) is not None
        and _is_balanced(text)
    )


def _compare_symbolically(reference: _Gold, gold: str, answer: str) -> tuple[Verdict, str]:
    outcome = symbolic_comparison().compare(gold, answer)
    if outcome is Outcome.FAILED:
        raise _NoComparison
    if outcome in (Outcome.UNREAD, Outcome.GOLD_EXCEEDED):
        if reference.tree is not None:  # it was read here, so it is the answer that cannot be compared with it
            return Verdict.WRONG, "not comparable"
        return Verdict.UNSCORABLE, "gold not read"
    if outcome is Outcome.EXCEEDED:
        return Verdict.WRONG, "beyond the limits"
    return _verdict(outcome is Outcome.EQUAL), "symbolic comparison"


def forget() -> None:
    """Empty the caches of golds and verdicts."""
    _read_gold.cache_clear()
    _decide.cache_clear()


def _verdict(is_right: bool) -> Verdict:
    return Verdict.RIGHT if is_right else Verdict.WRONG
