r"""Answers as plain text: equal spelling, words (`\text{east}`), choices (`\textbf{(C)}`)."""

from __future__ import annotations

import re

from sara.verifiers.math.characters import to_latex

_WRAPPERS = re.compile(
    r"\\(?:text(?:rm|bf|it|sf|tt|normal|up|md|sc)?|math(?:rm|bf|it|sf|tt|cal)|mbox|hbox|operatorname|boldsymbol|bm|"
    r"emph|left|right|displaystyle|dfrac(?=\{\})|bf|rm|it|quad|qquad)(?![A-Za-z])"
)
_SPACES = re.compile(r"\\[,;:!> ]|[\s~{}$]|\\\(|\\\)|\\\[|\\\]")
_NOTHING = re.compile(r"\s+|\\[,;:!> ]|\\[()]|\$")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)(?:\s+|\\[,;:!> ]|\\[()]|\$)+(?=\d)")
_CHOICE = re.compile(
    r"(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s*:?\s*)?(?:\(\s*([A-Za-z])\s*\)|([A-Z])\s*(?:\)|[.:]|$))\s*(.*)", re.DOTALL
)


def spelling(text: str) -> str:
    """The text without what changes nothing: spaces (not between digits), brackets of TeX, fonts, a mark at the end."""
    bare = _WRAPPERS.sub(" ", to_latex(text)).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    return re.sub(r"[.,;:]$", "", _NOTHING.sub("", _BETWEEN_DIGITS.sub("\0", bare)).strip())


def words(text: str) -> str:
    """The text as words in small letters with single spaces, without fonts and punctuation around it."""
    bare = _SPACES.sub(" ", _WRAPPERS.sub(" ", to_latex(text))).casefold()
    bare = re.sub(r"[\s.,;:!\"'-]+(?=\s|$)", " ", re.sub(r"\s*([,;()])\s*", r" \1 ", bare))
    return " ".join(re.findall(r"[^\s(),;.]+", bare))


def choice(text: str) -> str | None:
    """`C` of `(C)`, `C.` or `(C) 12`; None if the text names no choice, or several."""
    bare = _SPACES.sub(" ", _WRAPPERS.sub(" ", to_latex(text))).strip()
    match = _CHOICE.fullmatch(bare)
    if match is None or re.search(r"\(\s*[A-Za-z]\s*\)|\bor\b|\band\b|,|;|[-+*/^=<>]", match[3]):
        return None
    return (match[1] or match[2]).upper()
