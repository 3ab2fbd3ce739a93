r"""Reads the commands of LaTeX in an expression: fractions, roots, functions, sums, matrices."""

from __future__ import annotations

from fractions import Fraction

from sara.verifiers.math.cursor import END, Cursor, counted, joined, split
from sara.verifiers.math.lexer import FUNCTIONS, Token, Unreadable
from sara.verifiers.math.syntax import (
    Apply,
    Bracketed,
    Listing,
    Matrix,
    Node,
    Number,
    Relation,
    SetOf,
    Symbol,
    names,
)

_OF_SEVERAL = frozenset({"max", "min", "gcd", "lcm"})
_BIG = frozenset({"sum", "prod"})
FENCES = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil"), "lvert": ("rvert", "abs")}
_MATRICES = frozenset({"pmatrix", "bmatrix", "matrix", "smallmatrix", "array", "Bmatrix", "vmatrix"})
FRACTIONS = frozenset({"frac", "dfrac", "tfrac", "cfrac"})
GREEK = names(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho "
    "sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega triangle "
    "angle ell hbar aleph"
)


class CommandParser(Cursor):
    """What begins with a command; sums, products and powers are read by the class that completes this one."""

    def inner(self, tokens: list[Token]) -> Node:
        """The whole of an expression one level deeper."""
        return type(self)(tokens, self.depth + 1, self.read_list).whole()

    def _argument(self) -> Node:
        r"""What a command takes: a group in braces, or one token; of a numeral one digit (`\frac12`)."""
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            first, rest = token.text[0], token.text[1:]
            self.tokens = [
                *self.tokens[: self.position],
                Token("number", first, Fraction(first)),
                Token("number", rest, Fraction(rest)),
                *self.tokens[self.position + 1 :],
            ]
        self.deepen()
        if self.is_mark("-"):
            raise Unreadable("a sign in place of an argument")
        token = self.peek()
        node = Number(self.next().value) if token.kind == "number" else self._primary()
        self.depth -= 1
        return node

    def _command(self, name: str) -> Node:
        if name == "pi":
            return Symbol("pi")
        if name == "infty":
            return Symbol("inf")
        if name in ("emptyset", "varnothing", "empty"):
            return SetOf(())
        if name in FRACTIONS:
            above = self._argument()
            return Apply("/", (above, self._argument()))
        if name in ("binom", "dbinom", "tbinom"):
            above = self._argument()
            return Apply("binom", (above, self._argument()))
        if name == "sqrt":
            return self._root()
        if name in FUNCTIONS:
            return self._function(name)
        if name in GREEK:
            return self._symbol(name)
        if name in FENCES:
            return self._fence(*FENCES[name])
        if name == "langle":
            return self._angles()
        if name in ("underline", "underbrace"):
            return self._argument()
        if name in ("overline", "widehat", "bar"):
            return Symbol(f"{name} {self._argument()}")
        if name in ("ldots", "dots", "cdots"):
            return Symbol("dots")
        if name in _OF_SEVERAL:
            return self._of_several(name)
        if name in _BIG:
            return self._big(name)
        if name.startswith("begin ") and name[6:] in _MATRICES:
            return self._matrix(name[6:])
        raise Unreadable(f"the command {name!r}")

    def _root(self) -> Node:
        if not self.is_mark("["):
            return Apply("sqrt", (self._argument(),))
        degree = self.read_list(self.enclosed("["), self.depth + 1)
        return Apply("root", (self._argument(), degree))

    def _function(self, name: str) -> Node:
        """A function with its power and base (`\\sin^2 x`, `\\log_2 8`); without brackets it takes a product."""
        exponent = base = None
        while self.is_mark("^", "_"):
            if self.next().text == "_":
                base = self._argument_or_number()
            else:
                exponent = self._exponent_argument()
        if name == "lg":
            name, base = "log", base or Number(Fraction(10))
        argument = self._function_argument()
        if exponent is not None and exponent == Apply("neg", (Number(Fraction(1)),)):
            node = Apply("arc" + name, (argument,))
        else:
            node = Apply(name, (argument,) if base is None else (argument, base))
            node = node if exponent is None else Apply("^", (node, exponent))
        return node

    def _argument_or_number(self) -> Node:
        token = self.peek()
        return Number(self.next().value) if token.kind == "number" else self._argument()

    def _exponent_argument(self) -> Node:
        if self.is_mark("-"):
            self.next()
            return Apply("neg", (self._argument_or_number(),))
        return self._argument_or_number()

    def _function_argument(self) -> Node:
        self.deepen()
        if self.is_mark("(", "[", "{", "|"):
            node = self._primary()
            while self.is_mark("deg", "!"):
                node = Apply(self.next().text, (node,))
        elif self.is_command(FUNCTIONS):
            node = self._power()
        else:
            node = self._bare_argument()
        self.depth -= 1
        return node

    def _bare_argument(self) -> Node:
        """The argument of a function without brackets: factors up to the next function, bracket, + or -."""
        factors, divisions = [self._signed_power()], 0
        while True:
            if self._starts_factor() and not self.is_command(FUNCTIONS) and not self.is_mark("(", "["):
                self._juxtapose(factors)
            elif self.is_mark("/"):
                self.next()
                divisions = counted(divisions)
                factors = [Apply("/", (joined("*", factors), self._signed_power()))]
            else:
                return joined("*", factors)

    def _fence(self, closing: str, operation: str) -> Node:
        start, depth = self.position, 1
        opening = self.tokens[start - 1].text
        while depth:
            token = self.next()
            if token is END:
                raise Unreadable("a bracket is not closed")
            depth += (token.text == opening) - (token.text == closing)
        return Apply(operation, (self.inner(self.tokens[start : self.position - 1]),))

    def _angles(self) -> Node:
        start = self.position
        while (token := self.next()).text != "rangle":
            if token is END:
                raise Unreadable("a bracket is not closed")
        node = self.read_list(self.tokens[start : self.position - 1], self.depth + 1)
        if not isinstance(node, Listing):
            raise Unreadable("one value in angle brackets")
        return Bracketed("(", node.items, ")")

    def _of_several(self, name: str) -> Node:
        """`\\max(1, 2)`, `\\gcd\\{12, 18\\}`."""
        if not self.is_mark("(", "\\{", "["):
            raise Unreadable(f"{name} of nothing")
        node = self.read_list(self.enclosed(self.peek().text), self.depth + 1)
        return Apply(name, node.items if isinstance(node, Listing) else (node,))

    def _big(self, name: str) -> Node:
        """A sum or product over a range: lower `k=1` and upper bound, then the body up to the next + or -."""
        lower = upper = None
        while self.is_mark("^", "_"):
            is_lower = self.next().text == "_"
            if is_lower and self.is_mark("{"):
                lower = self.read_list(self.enclosed("{"), self.depth + 1)
            elif not is_lower:
                upper = self._argument_or_number()
        is_range = isinstance(lower, Relation) and lower.operators == ("=",) and isinstance(lower.sides[0], Symbol)
        if not is_range or upper is None:
            raise Unreadable("a sum without a range")
        self.deepen()
        body = self._factors()
        return Apply(name, (lower.sides[0], lower.sides[1], upper, body))

    def _matrix(self, kind: str) -> Node:
        start, depth = self.position, 1
        while depth:
            token = self.next()
            if token is END:
                raise Unreadable("a matrix is not closed")
            depth += token.text.startswith("begin ") - token.text.startswith("end ")
        rows, _ = split(self.tokens[start : self.position - 1], lambda token: token.text == "\\")
        cells = [split(row, lambda token: token.text == "&")[0] for row in rows if row]
        if not cells or len({len(row) for row in cells}) > 1:
            raise Unreadable("rows of different length")
        parsed = tuple(tuple(self.read_list(cell, self.depth + 1) for cell in row) for row in cells)
        return Matrix(parsed, kind == "vmatrix")
