"""A place in a line of tokens, and what every part of the parser needs to move on from it."""

from __future__ import annotations

from collections.abc import Callable

from sara.verifiers.math.lexer import Token, TooComplex, Unreadable
from sara.verifiers.math.syntax import Apply, Node

MAX_DEPTH = 30
"""Brackets, fractions and roots inside each other; deeper than that is no answer."""
OPENING = frozenset({"(", "[", "\\{", "{"})
CLOSING = frozenset({")", "]", "\\}", "}"})
END = Token("end", "")

ListReader = Callable[[list[Token], int], Node]
"""Reads the tokens between two brackets, at a depth."""


class Cursor:
    """Tokens, a position among them, and how deep they lie."""

    def __init__(self, tokens: list[Token], depth: int, read_list: ListReader):
        if depth > MAX_DEPTH:
            raise TooComplex("nested too deeply")
        self.tokens = tokens
        self.position = 0
        self.depth = depth
        self.read_list = read_list

    def peek(self, ahead: int = 0) -> Token:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def next(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def is_mark(self, *texts: str) -> bool:
        token = self.peek()
        return token.kind == "mark" and token.text in texts

    def is_command(self, names) -> bool:
        token = self.peek()
        return token.kind == "command" and token.text in names

    def deepen(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex("nested too deeply")

    def enclosed(self, opening: str) -> list[Token]:
        """Tokens up to the bracket that closes; the opening one is the next token."""
        self.next()
        start, depth = self.position, 1
        while depth:
            token = self.next()
            if token is END:
                raise Unreadable("a bracket is not closed")
            if token.kind in ("mark", "command"):
                depth += (token.text in OPENING) - (token.text in CLOSING)
        closing = self.tokens[self.position - 1].text
        if (opening == "{") != (closing == "}") or (opening == "\\{") != (closing == "\\}"):
            raise Unreadable("brackets that do not match")
        return self.tokens[start : self.position - 1]


def split(tokens: list[Token], is_separator) -> tuple[list[list[Token]], list[Token]]:
    """The runs of tokens between separators outside all brackets, and the separators."""
    runs, separators, depth = [[]], [], 0
    for token in tokens:
        if depth == 0 and is_separator(token):
            separators.append(token)
            runs.append([])
            continue
        if token.kind in ("mark", "command"):
            if token.text in OPENING or token.text.startswith("begin ") or token.text == "langle":
                depth += 1
            elif token.text in CLOSING or token.text.startswith("end ") or token.text == "rangle":
                depth -= 1
        runs[-1].append(token)
    return runs, separators


def joined(operation: str, operands: list[Node]) -> Node:
    return operands[0] if len(operands) == 1 else Apply(operation, tuple(operands))


def counted(count: int) -> int:
    """One more of what nests the tree; raises TooComplex beyond the greatest depth."""
    if count >= MAX_DEPTH:
        raise TooComplex("nested too deeply")
    return count + 1
