r"""Reads one expression by recursive descent: sums of products of powers of primaries.

sum := product (('+' | '-' | \pm) product)*          product := factor (('*' | '/')? factor)*
factor := sign* primary ('^' ... | '!' | '%' | degree)*
"""

from __future__ import annotations

from fractions import Fraction

from sara.verifiers.math.commands import FENCES, FRACTIONS, GREEK, CommandParser
from sara.verifiers.math.cursor import END, MAX_DEPTH, OPENING, ListReader, counted, joined, split
from sara.verifiers.math.lexer import FUNCTIONS, Token, TooComplex, Unreadable
from sara.verifiers.math.syntax import (
    NAMED_SETS,
    REALS,
    Apply,
    Based,
    Bracketed,
    Combined,
    Listing,
    Node,
    Number,
    Relation,
    SetOf,
    Symbol,
)

MAX_BASE = 36
_SET_OPERATIONS = {"cup": "cup", "cap": "cap", "setminus": "setminus", "backslash": "setminus"}
NUMBER_NAMES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


class ExpressionParser(CommandParser):
    """One side of a relation, or what stands between brackets."""

    def __init__(self, tokens: list[Token], depth: int, read_list: ListReader):
        super().__init__(tokens, depth, read_list)
        self.bars = 0

    def whole(self) -> Node:
        node = self._sets()
        if self.position < len(self.tokens):
            raise Unreadable(f"unexpected {self.tokens[self.position].text!r}")
        return node

    def _sets(self) -> Node:
        node, joined = _set_difference(self._sum()), 0
        while self.is_command(_SET_OPERATIONS):
            joined = counted(joined)
            node = Combined(_SET_OPERATIONS[self.next().text], node, _set_difference(self._sum()))
        return node

    def _sum(self) -> Node:
        terms, signs = [self._product()], 0
        while True:
            if self.is_mark("+", "-"):
                sign, term = self.next().text, self._product()
                terms.append(term if sign == "+" else Apply("neg", (term,)))
            elif self.is_command(("pm", "mp")):
                signs = counted(signs)
                sign, left = self.next().text, joined("+", terms)
                terms = [Apply(sign, (left, self._product()))]
            else:
                return joined("+", terms)

    def _product(self) -> Node:
        signs = []
        while self.is_mark("+", "-") or self.is_command(("pm", "mp")):
            if len(signs) > MAX_DEPTH:
                raise TooComplex("too many signs")
            signs.append(self.next().text)
        node = self._factors()
        for sign in reversed(signs):
            if sign != "+":
                node = Apply("neg" if sign == "-" else sign, (node,))
        return node

    def _factors(self) -> Node:
        factors, divisions = [self._power()], 0
        while True:
            if self.is_mark("*") or self.is_command(("cdot", "times", "ast")):
                self.next()
                factors.append(self._signed_power())
            elif self.is_mark("/") or self.is_command(("div", "bmod")):
                operation = "mod" if self.next().text == "bmod" else "/"
                divisions = counted(divisions)
                factors = [Apply(operation, (joined("*", factors), self._signed_power()))]
            elif self._starts_factor():
                self._juxtapose(factors)
            else:
                return joined("*", factors)

    def _juxtapose(self, factors: list[Node]) -> None:
        """One more factor: `2x` is a product, `2\\frac{1}{2}` is a mixed number, and `2 1` is neither."""
        before, token, node = self.tokens[self.position - 1], self.peek(), factors[-1]
        is_whole = isinstance(node, Number) and before.kind == "number" and node.value.denominator == 1
        if is_whole and token.kind == "number":
            factors[-1] = self._plain_mixed(node)
            return
        fraction = self._primary() if is_whole and token.text in FRACTIONS else None
        part = None if fraction is None else _proper_fraction(fraction)
        if part is not None and not self.is_mark("^", "!"):
            factors[-1] = self._powers(Number(node.value + part))
        else:
            factors.append(self._power() if fraction is None else self._powers(fraction))

    def _plain_mixed(self, whole: Number) -> Node:
        """`2 1/2`; two numbers side by side mean nothing else."""
        above, slash, below = self.next(), self.next(), self.next()
        if slash.text == "/" and above.text.isdigit() and below.text.isdigit():
            part = _proper_fraction(Apply("/", (Number(above.value), Number(below.value))))
            if part is not None:
                return self._powers(Number(whole.value + part))
        raise Unreadable("two numbers side by side")

    def _signed_power(self) -> Node:
        if self.is_mark("-", "+"):
            sign = self.next().text
            node = self._power()
            return Apply("neg", (node,)) if sign == "-" else node
        return self._power()

    def _starts_factor(self) -> bool:
        token = self.peek()
        if token.kind in ("number", "symbol"):
            return True
        if token.kind == "mark":
            return token.text in ("(", "[", "{", "\\{") or (token.text == "|" and self.bars == 0)
        return token.kind == "command" and (
            token.text in FUNCTIONS
            or token.text in FRACTIONS
            or token.text in GREEK
            or token.text in FENCES
            or token.text in ("sqrt", "pi", "infty", "binom", "dbinom", "tbinom", "begin pmatrix", "begin bmatrix")
        )

    def _power(self) -> Node:
        return self._powers(self._primary())

    def _powers(self, node: Node) -> Node:
        """A primary with what stands behind it: factorials, percent, degrees, exponents."""
        marks = 0
        while self.is_mark("!", "%", "deg", "^"):
            marks = counted(marks)
            if self.is_mark("!"):
                self.next()
                node = Apply("!", (node,))
            elif self.is_mark("%"):
                self.next()
                node = Apply("percent", (node,))
            elif self.is_mark("deg"):
                self.next()
                node = Apply("deg", (node,))
            else:
                self.next()
                node = Apply("^", (node, self._exponent()))
        return node

    def _exponent(self) -> Node:
        if self.is_mark("-", "+"):
            sign = self.next().text
            node = self._exponent()
            return Apply("neg", (node,)) if sign == "-" else node
        node = self._primary()
        if self.is_mark("^"):
            self.next()
            self.deepen()
            node = Apply("^", (node, self._exponent()))
        return node

    def _primary(self) -> Node:
        token = self.next()
        if token.kind == "number":
            return self._numeral(token)
        if token.kind == "symbol":
            return self._hexadecimal(token) or self._symbol(token.text)
        if token.kind == "mark" and token.text in OPENING:
            return self._group(token.text)
        if token.kind == "mark" and token.text == "|":
            return self._bars()
        if token.kind == "command":
            return self._command(token.text)
        raise Unreadable(f"unexpected {token.text!r}" if token is not END else "ends too early")

    def _numeral(self, token: Token) -> Node:
        if self.is_mark("_"):
            self.next()
            return _based(token.text, self._subscript())
        if token.text.isdigit() and self.peek().kind == "symbol" and len(self.peek().text) == 1:
            return self._letter_digits(token)
        return Number(token.value)

    def _letter_digits(self, token: Token) -> Node:
        """`1A2_{16}`: digits beyond 9 are capitals; anything else stays a number before a variable."""
        ahead = 0
        while (part := self.peek(ahead)).kind in ("number", "symbol") and (
            part.text.isdigit() or (len(part.text) == 1 and part.text.isupper())
        ):
            ahead += 1
        if ahead and self.peek(ahead).text == "_" and not self.peek(ahead - 1).text.islower():
            digits = token.text + "".join(self.next().text for _ in range(ahead))
            self.next()
            return _based(digits, self._subscript())
        return Number(token.value)

    def _hexadecimal(self, token: Token) -> Node | None:
        """`FF_{16}`: two or more digits of which the first is a letter, in the one base where they mean a number."""
        start, digits = self.position, token.text
        while self.peek().kind in ("number", "symbol") and self.peek().text.isalnum():
            digits += self.next().text
        if len(digits) > 1 and all(digit in "0123456789ABCDEF" for digit in digits) and self.is_mark("_"):
            self.next()
            if self._subscript() == "16":
                return _based(digits, "16")
        self.position = start
        return None

    def _symbol(self, name: str) -> Node:
        if name in NAMED_SETS:
            if self.is_mark("^"):
                raise Unreadable("a power of a set")
            return Symbol(name)
        while True:
            if self.is_mark("_"):
                self.next()
                name += "_" + self._subscript()
            elif self.is_mark("'"):
                self.next()
                name += "'"
            else:
                return Symbol(name)

    def _subscript(self) -> str:
        if not self.is_mark("{"):
            token = self.peek()
            if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
                return self.next().text
            if token.kind not in ("number", "symbol", "word", "command"):
                raise Unreadable("an empty subscript")
            return self.next().text
        inner = self.enclosed("{")
        return "".join(token.text for token in inner if token.text not in "(){}")

    def _group(self, opening: str) -> Node:
        self.position -= 1
        inner = self.enclosed(opening)
        closing = self.tokens[self.position - 1].text
        if opening == "\\{":
            return _set_of(inner, self.depth + 1, self.read_list)
        runs, infixes = split(inner, lambda token: token.kind == "command" and token.text in ("choose", "over"))
        if len(infixes) == 1:
            above, below = (self.read_list(run, self.depth + 1) for run in runs)
            return Apply("binom" if infixes[0].text == "choose" else "/", (above, below))
        node = self.read_list(inner, self.depth + 1)
        if self.is_mark("_") and opening == "(" and len(inner) == 1 and inner[0].kind == "number":
            self.next()
            return _based(inner[0].text, self._subscript())
        if isinstance(node, Listing) and opening != "{":
            if node.joint != ",":
                raise Unreadable("words between brackets")
            return Bracketed(opening, node.items, closing)
        if opening != "{" and (opening, closing) not in (("(", ")"), ("[", "]")):
            raise Unreadable("brackets that do not match")
        return node

    def _bars(self) -> Node:
        self.bars += 1
        self.deepen()
        node = self._sum()
        self.depth -= 1
        if not self.is_mark("|"):
            raise Unreadable("a bar is not closed")
        self.next()
        self.bars -= 1
        return Apply("abs", (node,))


def _set_difference(node: Node) -> Node:
    r"""`\\mathbb{R} - \\{3\\}` is a set without another, and no sum."""
    if isinstance(node, Apply) and node.operation == "+" and len(node.arguments) == 2 and node.arguments[0] == REALS:
        right = node.arguments[1]
        if isinstance(right, Apply) and right.operation == "neg" and isinstance(right.arguments[0], SetOf):
            return Combined("setminus", REALS, right.arguments[0])
    return node


def _set_of(inner: list[Token], depth: int, read_list: ListReader) -> Node:
    if not inner:
        return SetOf(())
    place = next((place for place, token in enumerate(inner) if token.text in ("|", ":", "mid")), 0)
    if place and inner[place + 1 :] and (inner[place].text != "|" or _is_lone(inner, place)):
        return _described(inner[:place], inner[place + 1 :], depth, read_list)
    node = read_list(inner, depth)
    return SetOf(node.items if isinstance(node, Listing) else (node,))


def _is_lone(inner: list[Token], place: int) -> bool:
    """Whether the bar there belongs to no pair: an odd number of bars stands in the set."""
    return sum(token.text == "|" for token in inner) % 2 == 1 and place > 0


def _described(variable: list[Token], condition: list[Token], depth: int, read_list: ListReader) -> Node:
    r"""`\\{x \\mid x > 0\\}` is what its condition says, where it is one about the variable."""
    subject = read_list(variable, depth)
    if isinstance(subject, Relation) and subject.operators == ("in",) and subject.sides[1] == REALS:
        subject = subject.sides[0]
    if not isinstance(subject, Symbol):
        raise Unreadable("a set of what is no variable")
    node = read_list(condition, depth)
    relations = node.items if isinstance(node, Listing) else (node,)
    if not all(isinstance(relation, Relation) for relation in relations):
        raise Unreadable("a condition that is none")
    if isinstance(node, Listing) and node.joint == ",":
        return Listing(node.items, "and")
    return node


def _proper_fraction(node: Node) -> Fraction | None:
    """Value of `\\frac{1}{2}` made of two positive integers, less than 1; None for anything else."""
    if not isinstance(node, Apply) or node.operation != "/":
        return None
    above, below = node.arguments
    if not isinstance(above, Number) or not isinstance(below, Number) or below.value == 0:
        return None
    if above.value.denominator != 1 or below.value.denominator != 1 or not 0 < above.value < below.value:
        return None
    return above.value / below.value


def _based(digits: str, subscript: str) -> Node:
    subscript = subscript.casefold().removeprefix("base")
    base = NUMBER_NAMES.index(subscript) if subscript in NUMBER_NAMES else 0
    if subscript.isdigit() and len(subscript) < 3:
        base = int(subscript)
    if not 2 <= base <= MAX_BASE or not digits.isalnum():
        raise Unreadable("a base that is none")
    if any(int(digit, 36) >= base for digit in digits):
        raise Unreadable("a digit that its base lacks")
    return Based(digits.lstrip("0").upper() or "0", base)
