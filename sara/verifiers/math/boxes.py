r"""Finds the final answer of a response: the content of its last closed `\boxed{}`.

Owns where an answer stands, never what it means. The rest of the text is never an answer, whatever it says.
"""

from __future__ import annotations

import re

from sara.verifiers.reasoning import said_after_reasoning

MAX_BOX_CHARS = 4_000
"""A box is looked at for this many characters; one that is not closed within them is not closed."""
MAX_BOXES = 100
"""So many boxes are tried from the end: more unclosed ones in a row are no answer."""

_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_OPENING = re.compile(r"\\boxed\s{0,20}\{")
_BARE = re.compile(
    r"\\boxed\s{1,20}([-+]?(?:\d{1,40}(?:[.,/]\d{1,40}){0,8}|\\[dt]?frac\s?(?:\d\d|\{[^{}]{1,40}\}\{[^{}]{1,40}\})"
    r"|\\pi(?![A-Za-z])|[A-Za-z](?=\s?(?:\$|\\\)|\\\]|$))))"
)


def final_answer(response: str) -> str | None:
    r"""Content of the last closed `\boxed{...}` (or `\boxed 9`) after the reasoning; None without one.

    Braces are counted, escaped ones (`\{`) are not. Where a box stands inside another, the outer one is the answer.
    """
    said = said_after_reasoning(response)
    if said is None:
        return None
    position, inner = len(said), None
    for _ in range(MAX_BOXES):
        position = said.rfind("\\boxed", 0, position)
        if position < 0:
            break
        span = _box_at(said, position)
        if span is None:
            continue
        if inner is not None and span[1] < inner[1]:
            break  # it stands before the last box, not around it
        inner = span
    return None if inner is None else _unwrap(said[inner[0] : inner[1]])


def _box_at(said: str, position: int) -> tuple[int, int] | None:
    """Where the content of the box that starts here begins and ends; None if it is no closed box."""
    opening = _OPENING.match(said, position)
    if opening is None:
        bare = _BARE.match(said, position)
        return bare.span(1) if bare else None
    depth = 1
    for brace in _BRACES.finditer(said, opening.end(), opening.end() + MAX_BOX_CHARS + 1):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return opening.end(), brace.start()
    return None


def _unwrap(content: str) -> str:
    r"""The content without commands of inner boxes (`x = \boxed{5}` says `x = {5}`) and marks of Markdown around it."""
    bare = re.sub(r"\\boxed(?![A-Za-z])", "", content).strip().strip("*`").strip()
    return f"{bare} " if re.search(r"(?<!\\)\\$", bare) else bare  # the space of `42\ ` belongs to the backslash
