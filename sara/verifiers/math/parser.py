r"""Reads the tokens of an answer into a syntax tree: lists of items, relations, units; expressions by `expressions`.

answer := item ((',' | ';' | and | or) item)*       item := side (relation side)*
side := expression (':' expression)* unit?
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from sara.verifiers.math.characters import to_latex
from sara.verifiers.math.cursor import CLOSING, MAX_DEPTH, OPENING, split
from sara.verifiers.math.expressions import NUMBER_NAMES, ExpressionParser
from sara.verifiers.math.lexer import MONEY, Token, TooComplex, Unreadable, tokenize
from sara.verifiers.math.syntax import (
    REALS,
    Apply,
    Listing,
    Node,
    Number,
    Quantity,
    Ratio,
    Relation,
    SetOf,
    Words,
    names,
)
from sara.verifiers.math.units import canonical_unit, measured

MAX_ANSWER_CHARS = 2_000
MAX_LATEX_CHARS = 8_000
"""Of the answer once its mathematical characters are LaTeX: one character can become twenty."""
_RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "~", "in"})
_NOTHING = re.compile(r"(?:there (?:is|are) )?no (?:real |integer |such )?(?:solutions?|roots?|values?)(?: exists?)?")
_UNIT_MARKS = frozenset({"^", "/", "-", "."})
_FILLERS = names("about approximately roughly exactly is are the answer ans final value domain range solution result")
_NEGATIONS = names("not no never neither cannot wrong false incorrect unlike except")
"""Words that turn what stands beside them into its opposite."""
_EMPTY, _EVERYTHING = (
    names("empty-set the-empty-set"),
    names(
        "all-real-numbers all-reals any-real-number real-numbers the-real-numbers the-set-of-all-real-numbers "
        "the-set-of-real-numbers"
    ),
)


def parse_answer(text: str) -> Node:
    """Syntax tree of an answer; raises Unreadable where the text is not understood here."""
    latex = to_latex(text)
    if len(text) > MAX_ANSWER_CHARS or len(latex) > MAX_LATEX_CHARS:
        raise TooComplex("too long")
    return parse_tokens(tokenize(latex))


def parse_tokens(tokens: list[Token]) -> Node:
    """Syntax tree of tokens as `tokenize` gives them; raises Unreadable."""
    for mark in ("\\", ".", ",", ";", ":", "!"):
        if tokens and tokens[-1].text == mark and not _is_factorial(tokens):
            tokens = tokens[:-1]
    if not tokens:
        raise Unreadable("nothing")
    return _parse_list(tokens, 0)


def _is_factorial(tokens: list[Token]) -> bool:
    return tokens[-1].text == "!" and len(tokens) > 1 and tokens[-2].kind != "word"


def _is_joint(token: Token) -> bool:
    return token.kind == "joint" or (token.kind == "mark" and token.text in (",", ";"))


def _parse_list(tokens: list[Token], depth: int) -> Node:
    runs, joints = split(tokens, _is_joint)
    if not joints:
        return _parse_item(tokens, depth)
    items = tuple(_parse_item(run, depth) for run in runs if run)  # `3, 5, and 7` has nothing between `,` and `and`
    empty = sum(not run for run in runs)
    words = [joint.text for joint in joints if joint.kind == "joint"]
    if not items or empty > len(words):
        raise Unreadable("nothing between two commas")
    if len(items) == 1:
        return items[0]
    return Listing(items, words[0] if len(set(words)) == 1 else ",")


def _parse_item(tokens: list[Token], depth: int) -> Node:
    if (name := _parse_name(tokens)) is not None:
        return name
    runs, relations = split(tokens, lambda token: token.kind == "mark" and token.text in _RELATIONS)
    if relations and not runs[0] and relations[0].text in ("~", "="):
        runs, relations = runs[1:], relations[1:]  # `\approx 8.24`
    if len(relations) > MAX_DEPTH:
        raise TooComplex("too long a chain")
    if not relations:
        return _parse_side(runs[0], depth)
    operators = tuple(relation.text for relation in relations)
    return Relation(
        (_parse_first(runs[0], operators, depth), *(_parse_side(run, depth) for run in runs[1:])), operators
    )


def _parse_name(tokens: list[Token]) -> Node | None:
    """Words alone; None where there are others."""
    if tokens and all(token.kind == "word" for token in tokens):
        return _words(" ".join(token.text for token in tokens))
    return None


def _parse_first(tokens: list[Token], operators: tuple[str, ...], depth: int) -> Node:
    r"""The first side of a relation; before an `=` also words and unknown signs: `\text{Area} = 5`, `\Pr[A] = 5`."""
    if any(token.text in _NEGATIONS for token in tokens):
        raise Unreadable("a negation")
    if (name := _parse_name(tokens)) is not None:
        return name
    try:
        return _parse_side(tokens, depth)
    except TooComplex:
        raise
    except Unreadable:
        if operators[0] != "=" or not any(token.kind in ("word", "symbol", "command") for token in tokens):
            raise
        return Words(" ".join(token.text for token in tokens))


def _words(text: str) -> Node:
    """Words that name a number or say that there is no solution mean what they say."""
    if text in NUMBER_NAMES:
        return Number(Fraction(NUMBER_NAMES.index(text)))
    if text.replace(" ", "-") in _EVERYTHING:
        return REALS
    return SetOf(()) if _NOTHING.fullmatch(text) or text.replace(" ", "-") in _EMPTY else Words(text)


def _parse_side(tokens: list[Token], depth: int) -> Node:
    has_money = any(token.text == MONEY for token in tokens)
    tokens, unit = _take_unit([token for token in tokens if token.text != MONEY])
    unit = unit or ("dollar" if has_money else "")
    value = _parse_ratio(tokens, depth)
    if unit in ("degree", "degrees", "deg"):
        return Apply("deg", (value,))
    if unit in ("percent", "percents", "percentage"):
        return Apply("percent", (value,))
    return Quantity(value, unit) if unit else value


def _take_unit(tokens: list[Token]) -> tuple[list[Token], str]:
    r"""The tokens without the words at the end (`35 \text{ cm}^2`), and these as a unit; fillers in front go too."""
    tokens = _without_introduction(tokens)
    first = _first_word(tokens)
    if not first:
        return tokens, ""
    words = [token for token in tokens[first:] if token.text not in "{}"]
    if not all(_may_be_unit(before, token) for before, token in pairwise(words)) or _NEGATIONS & {
        token.text for token in words
    }:
        return tokens, ""
    return tokens[:first], canonical_unit(" ".join(token.text for token in words))


def _without_introduction(tokens: list[Token]) -> list[Token]:
    r"""What follows fillers, also with a colon: `\text{The domain is: } [2, 3]`."""
    start = 0
    while start + 1 < len(tokens) and tokens[start].kind == "word" and tokens[start].text in _FILLERS:
        start += 1
    return tokens[start + 1 :] if start and start + 1 < len(tokens) and tokens[start].text == ":" else tokens[start:]


def _may_be_unit(before: Token, token: Token) -> bool:
    """Whether a token may follow another one in a unit; a letter in mathematics only does after a slash (`km/h`)."""
    if token.kind == "symbol":
        return before.text == "/"
    if token.kind == "number":  # of `cm^2`, `cm2`, `s^{-1}`; after any other word it is a second answer
        return token.text in ("1", "2", "3") and (before.text in ("^", "-") or measured(before.text) is not None)
    return token.kind == "word" or token.text in _UNIT_MARKS


def _first_word(tokens: list[Token]) -> int | None:
    """Place of the first word outside all brackets."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind == "word" and depth == 0:
            return place
        if token.kind == "mark":
            depth += (token.text in OPENING) - (token.text in CLOSING)
    return None


def _parse_ratio(tokens: list[Token], depth: int) -> Node:
    runs, colons = split(tokens, lambda token: token.kind == "mark" and token.text == ":")
    if not colons:
        return ExpressionParser(tokens, depth, _parse_list).whole()
    parts = tuple(ExpressionParser(run, depth, _parse_list).whole() for run in runs)
    return Ratio(parts, tuple("".join(token.text for token in run) for run in runs))
