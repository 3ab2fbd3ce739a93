r"""The math verifier's order of decisions: same spelling, words and choices, exact values, then symbolic algebra.

Text of a model is read by grammars alone: nothing of it is ever evaluated as code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sara.verifiers.base import Verdict
from sara.verifiers.math.boxes import final_answer
from sara.verifiers.math.comparison import compare
from sara.verifiers.math.lexer import Unreadable
from sara.verifiers.math.parser import MAX_ANSWER_CHARS, parse_answer
from sara.verifiers.math.syntax import Node, Words
from sara.verifiers.math.texts import choice, spelling, words

CACHED_VERDICTS = 50_000
CACHED_GOLDS = 10_000


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
    returns    RIGHT or WRONG; UNSCORABLE for a faulty gold (`is_scorable_gold`), or where the comparison itself failed

    Safe to call from any thread, with any text.
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
    verdict, reason = _decide(gold, answer)
    return Grade(verdict, answer, reason)


def is_scorable_gold(gold: object) -> bool:
    """Whether answers can be compared with a gold: it is text, not too long, and read as mathematics or as words."""
    return isinstance(gold, str) and _read_gold(gold) is not None


@dataclass(frozen=True)
class _Gold:
    spelling: str
    words: str
    choice: str | None
    tree: Node | None


@lru_cache(CACHED_GOLDS)
def _read_gold(gold: str) -> _Gold | None:
    if not spelling(gold) or len(gold) > MAX_ANSWER_CHARS or _has_open_braces(gold):
        return None
    try:
        tree = parse_answer(gold)
    except Unreadable:
        tree = None
    return _Gold(spelling(gold), words(gold), choice(gold), tree)


def _has_open_braces(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        if character in "{}" and text[place - 1 : place] != "\\":
            depth += 1 if character == "{" else -1
        if depth < 0:
            return True
    return depth != 0


@lru_cache(CACHED_VERDICTS)
def _decide(gold: str, answer: str) -> tuple[Verdict, str]:
    reference = _read_gold(gold)
    if spelling(answer) == reference.spelling:
        return Verdict.RIGHT, "same spelling"
    if reference.choice is not None:
        return _verdict(choice(answer) == reference.choice), "choice"
    try:
        tree = parse_answer(answer)
    except Unreadable:
        tree = None
    if (reference.tree is None or isinstance(reference.tree, Words)) and words(answer) == reference.words:
        return Verdict.RIGHT, "same words"
    if reference.tree is not None and tree is not None:
        verdict = compare(reference.tree, tree)
        if verdict is not None:
            return _verdict(verdict), "exact comparison"
    return Verdict.WRONG, "not compared"


def _verdict(is_right: bool) -> Verdict:
    return Verdict.RIGHT if is_right else Verdict.WRONG
