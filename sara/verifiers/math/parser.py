r"""Reads the tokens of an answer into a syntax tree, by recursive descent.

answer := item ((',' | ';' | and | or) item)*        item := side (relation side)* unit?
side := set (\cup set)* | sum (':' sum)*             sum := product (('+'|'-'|\pm) product)*
product := factor (('*'|'/')? factor)*               factor := sign* primary ('^' ... | '!' | '%' | degree)*
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from sara.verifiers.math.lexer import FUNCTIONS, MONEY, Token, TooComplex, Unreadable, tokenize
from sara.verifiers.math.syntax import (
    NAMED_SETS,
    REALS,
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
    names,
)
from sara.verifiers.math.units import canonical_unit

MAX_ANSWER_CHARS = 2_000
MAX_DEPTH = 30
"""Brackets, fractions and roots inside each other; deeper than that is no answer."""
MAX_BASE = 36

_RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "~", "in"})
_OPENING = {"(": ")", "[": "]", "\\{": "\\}", "{": "}"}
_CLOSING = frozenset({")", "]", "\\}", "}"})
_GREEK = names(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho "
    "sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega triangle "
    "angle ell hbar aleph"
)
_OF_SEVERAL = frozenset({"max", "min", "gcd", "lcm"})
_BIG = frozenset({"sum", "prod"})
_FENCES = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil"), "lvert": ("rvert", "abs")}
_MATRICES = frozenset({"pmatrix", "bmatrix", "matrix", "smallmatrix", "array", "Bmatrix", "vmatrix"})
_SET_OPERATIONS = {"cup": "cup", "cap": "cap", "setminus": "setminus", "backslash": "setminus"}
_FRACTIONS = frozenset({"frac", "dfrac", "tfrac", "cfrac"})
_NUMBER_NAMES = (
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
_NOTHING = re.compile(r"(?:there (?:is|are) )?no (?:real |integer |such )?(?:solutions?|roots?|values?)(?: exists?)?")
_UNIT_MARKS = frozenset({"^", "/", "-", ".", "1", "2", "3"})
_FILLERS = names("about approximately roughly exactly is are the answer value")


def parse_answer(text: str) -> Node:
    """Syntax tree of an answer; raises Unreadable where the text is not understood here."""
    if len(text) > MAX_ANSWER_CHARS:
        raise TooComplex("too long")
    return parse_tokens(tokenize(text))


def parse_tokens(tokens: list[Token]) -> Node:
    """Syntax tree of tokens as `tokenize` gives them; raises Unreadable."""
    while tokens and tokens[-1].text in (".", ",", ";", "!", ":", "'", "?", "\\") and not _is_factorial(tokens):
        tokens = tokens[:-1]
    if not tokens:
        raise Unreadable("nothing")
    return _parse_list(tokens, 0)


def _is_factorial(tokens: list[Token]) -> bool:
    return tokens[-1].text == "!" and len(tokens) > 1 and tokens[-2].kind != "word"


def _split(tokens: list[Token], is_separator) -> tuple[list[list[Token]], list[Token]]:
    """The runs of tokens between separators outside all brackets, and the separators."""
    runs, separators, depth = [[]], [], 0
    for token in tokens:
        if depth == 0 and is_separator(token):
            separators.append(token)
            runs.append([])
            continue
        if token.kind in ("mark", "command"):
            if token.text in _OPENING or token.text.startswith("begin ") or token.text == "langle":
                depth += 1
            elif token.text in _CLOSING or token.text.startswith("end ") or token.text == "rangle":
                depth -= 1
        runs[-1].append(token)
    return runs, separators


def _is_joint(token: Token) -> bool:
    return token.kind == "joint" or (token.kind == "mark" and token.text in (",", ";"))


def _parse_list(tokens: list[Token], depth: int) -> Node:
    runs, joints = _split(tokens, _is_joint)
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
    if tokens and all(token.kind == "word" for token in tokens):
        return _words(" ".join(token.text for token in tokens))
    runs, relations = _split(tokens, lambda token: token.kind == "mark" and token.text in _RELATIONS)
    if relations and not runs[0] and relations[0].text in ("~", "="):
        runs, relations = runs[1:], relations[1:]  # `\approx 8.24`
    if len(relations) > MAX_DEPTH:
        raise TooComplex("too long a chain")
    if not relations:
        return _parse_side(runs[0], depth)
    return Relation(tuple(_parse_side(run, depth) for run in runs), tuple(relation.text for relation in relations))


def _words(text: str) -> Node:
    """Words that name a number or say that there is no solution mean what they say."""
    if text in _NUMBER_NAMES:
        return Number(Fraction(_NUMBER_NAMES.index(text)))
    return SetOf(()) if _NOTHING.fullmatch(text) else Words(text)


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
    while len(tokens) > 1 and tokens[0].kind == "word" and tokens[0].text in _FILLERS:
        tokens = tokens[1:]
    first = _first_word(tokens)
    if not first:
        return tokens, ""
    words = [token for token in tokens[first:] if token.text not in "{}"]
    if not all(_may_be_unit(before, token) for before, token in pairwise(words)):
        return tokens, ""
    return tokens[:first], canonical_unit(" ".join(token.text for token in words))


def _may_be_unit(before: Token, token: Token) -> bool:
    """Whether a token may follow another one in a unit; a letter in mathematics only does after a slash (`km/h`)."""
    if token.kind == "symbol":
        return before.text == "/"
    return token.kind == "word" or token.text in _UNIT_MARKS


def _first_word(tokens: list[Token]) -> int | None:
    """Place of the first word outside all brackets."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind == "word" and depth == 0:
            return place
        if token.kind == "mark":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
    return None


def _parse_ratio(tokens: list[Token], depth: int) -> Node:
    runs, colons = _split(tokens, lambda token: token.kind == "mark" and token.text == ":")
    if not colons:
        return _Parser(tokens, depth).whole()
    parts = tuple(_Parser(run, depth).whole() for run in runs)
    return Ratio(parts, tuple("".join(token.text for token in run) for run in runs))


class _Parser:
    """Recursive descent over one side of a relation."""

    def __init__(self, tokens: list[Token], depth: int):
        if depth > MAX_DEPTH:
            raise TooComplex("nested too deeply")
        self.tokens = tokens
        self.position = 0
        self.depth = depth
        self.bars = 0

    def whole(self) -> Node:
        node = self._sets()
        if self.position < len(self.tokens):
            raise Unreadable(f"unexpected {self.tokens[self.position].text!r}")
        return node

    def _peek(self, ahead: int = 0) -> Token:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else _END

    def _next(self) -> Token:
        token = self._peek()
        self.position += 1
        return token

    def _is_mark(self, *texts: str) -> bool:
        token = self._peek()
        return token.kind == "mark" and token.text in texts

    def _is_command(self, names) -> bool:
        token = self._peek()
        return token.kind == "command" and token.text in names

    def _sets(self) -> Node:
        node, joined = self._sum(), 0
        while self._is_command(_SET_OPERATIONS):
            joined = _counted(joined)
            node = Combined(_SET_OPERATIONS[self._next().text], node, self._sum())
        return node

    def _sum(self) -> Node:
        terms, signs = [self._product()], 0
        while True:
            if self._is_mark("+", "-"):
                sign, term = self._next().text, self._product()
                terms.append(term if sign == "+" else Apply("neg", (term,)))
            elif self._is_command(("pm", "mp")):
                signs = _counted(signs)
                sign, left = self._next().text, _joined("+", terms)
                terms = [Apply(sign, (left, self._product()))]
            else:
                return _joined("+", terms)

    def _product(self) -> Node:
        signs = []
        while self._is_mark("+", "-") or self._is_command(("pm", "mp")):
            if len(signs) > MAX_DEPTH:
                raise TooComplex("too many signs")
            signs.append(self._next().text)
        node = self._factors()
        for sign in reversed(signs):
            if sign != "+":
                node = Apply("neg" if sign == "-" else sign, (node,))
        return node

    def _factors(self) -> Node:
        factors, divisions = [self._power()], 0
        while True:
            if self._is_mark("*") or self._is_command(("cdot", "times", "ast")):
                self._next()
                factors.append(self._signed_power())
            elif self._is_mark("/") or self._is_command(("div", "bmod")):
                operation = "mod" if self._next().text == "bmod" else "/"
                divisions = _counted(divisions)
                factors = [Apply(operation, (_joined("*", factors), self._signed_power()))]
            elif self._starts_factor():
                self._juxtapose(factors)
            else:
                return _joined("*", factors)

    def _juxtapose(self, factors: list[Node]) -> None:
        """One more factor: `2x` is a product, `2\\frac{1}{2}` is a mixed number, and `2 1` is neither."""
        before, token, node = self.tokens[self.position - 1], self._peek(), factors[-1]
        is_whole = isinstance(node, Number) and before.kind == "number" and node.value.denominator == 1
        if is_whole and token.kind == "number":
            factors[-1] = self._plain_mixed(node)
            return
        right = self._power()
        part = _proper_fraction(right) if is_whole and token.text in _FRACTIONS else None
        if part is None:
            factors.append(right)
        else:
            factors[-1] = Number(node.value + part)

    def _plain_mixed(self, whole: Number) -> Node:
        """`2 1/2`; two numbers side by side mean nothing else."""
        above, slash, below = self._next(), self._next(), self._next()
        if slash.text == "/" and above.text.isdigit() and below.text.isdigit():
            part = _proper_fraction(Apply("/", (Number(above.value), Number(below.value))))
            if part is not None:
                return Number(whole.value + part)
        raise Unreadable("two numbers side by side")

    def _signed_power(self) -> Node:
        if self._is_mark("-", "+"):
            sign = self._next().text
            node = self._power()
            return Apply("neg", (node,)) if sign == "-" else node
        return self._power()

    def _starts_factor(self) -> bool:
        token = self._peek()
        if token.kind in ("number", "symbol"):
            return True
        if token.kind == "mark":
            return token.text in ("(", "[", "{", "\\{") or (token.text == "|" and self.bars == 0)
        return token.kind == "command" and (
            token.text in FUNCTIONS
            or token.text in _FRACTIONS
            or token.text in _GREEK
            or token.text in _FENCES
            or token.text in ("sqrt", "pi", "infty", "binom", "dbinom", "tbinom", "begin pmatrix", "begin bmatrix")
        )

    def _power(self) -> Node:
        node, marks = self._primary(), 0
        while self._is_mark("!", "%", "deg", "^"):
            marks = _counted(marks)
            if self._is_mark("!"):
                self._next()
                node = Apply("!", (node,))
            elif self._is_mark("%"):
                self._next()
                node = Apply("percent", (node,))
            elif self._is_mark("deg"):
                self._next()
                node = Apply("deg", (node,))
            else:
                self._next()
                node = Apply("^", (node, self._exponent()))
        return node

    def _exponent(self) -> Node:
        if self._is_mark("-", "+"):
            sign = self._next().text
            node = self._exponent()
            return Apply("neg", (node,)) if sign == "-" else node
        node = self._primary()
        if self._is_mark("^"):
            self._next()
            self._deepen()
            node = Apply("^", (node, self._exponent()))
        return node

    def _deepen(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex("nested too deeply")

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "number":
            return self._numeral(token)
        if token.kind == "symbol":
            return self._symbol(token.text)
        if token.kind == "mark" and token.text in _OPENING:
            return self._group(token.text)
        if token.kind == "mark" and token.text == "|":
            return self._bars()
        if token.kind == "command":
            return self._command(token.text)
        raise Unreadable(f"unexpected {token.text!r}" if token is not _END else "ends too early")

    def _numeral(self, token: Token) -> Node:
        if self._is_mark("_"):
            self._next()
            return _based(token.text, self._subscript())
        if token.text.isdigit() and self._peek().kind == "symbol" and len(self._peek().text) == 1:
            return self._letter_digits(token)
        return Number(token.value)

    def _letter_digits(self, token: Token) -> Node:
        """`1A2_{16}`: digits beyond 9 are capitals; anything else stays a number before a variable."""
        ahead = 0
        while (part := self._peek(ahead)).kind in ("number", "symbol") and (
            part.text.isdigit() or (len(part.text) == 1 and part.text.isupper())
        ):
            ahead += 1
        if ahead and self._peek(ahead).text == "_" and not self._peek(ahead - 1).text.islower():
            digits = token.text + "".join(self._next().text for _ in range(ahead))
            self._next()
            return _based(digits, self._subscript())
        return Number(token.value)

    def _symbol(self, name: str) -> Node:
        if name in NAMED_SETS:
            if self._is_mark("^"):
                raise Unreadable("a power of a set")
            return Symbol(name)
        while True:
            if self._is_mark("_"):
                self._next()
                name += "_" + self._subscript()
            elif self._is_mark("'"):
                self._next()
                name += "'"
            else:
                return Symbol(name)

    def _subscript(self) -> str:
        if not self._is_mark("{"):
            token = self._peek()
            if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
                return self._next().text
            if token.kind not in ("number", "symbol", "word", "command"):
                raise Unreadable("an empty subscript")
            return self._next().text
        inner = self._enclosed("{")
        return "".join(token.text for token in inner if token.text not in "(){}")

    def _enclosed(self, opening: str) -> list[Token]:
        """Tokens up to the bracket that closes; the opening one is the next token."""
        self._next()
        start, depth = self.position, 1
        while depth:
            token = self._next()
            if token is _END:
                raise Unreadable("a bracket is not closed")
            if token.kind in ("mark", "command"):
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
        closing = self.tokens[self.position - 1].text
        if (opening == "{") != (closing == "}") or (opening == "\\{") != (closing == "\\}"):
            raise Unreadable("brackets that do not match")
        return self.tokens[start : self.position - 1]

    def _group(self, opening: str) -> Node:
        self.position -= 1
        inner = self._enclosed(opening)
        closing = self.tokens[self.position - 1].text
        if opening == "\\{":
            return _set_of(inner, self.depth + 1)
        runs, infixes = _split(inner, lambda token: token.kind == "command" and token.text in ("choose", "over"))
        if len(infixes) == 1:
            above, below = (_parse_item(run, self.depth + 1) for run in runs)
            return Apply("binom" if infixes[0].text == "choose" else "/", (above, below))
        node = _parse_list(inner, self.depth + 1)
        if self._is_mark("_") and opening == "(" and len(inner) == 1 and inner[0].kind == "number":
            self._next()
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
        self._deepen()
        node = self._sum()
        self.depth -= 1
        if not self._is_mark("|"):
            raise Unreadable("a bar is not closed")
        self._next()
        self.bars -= 1
        return Apply("abs", (node,))

    def _argument(self) -> Node:
        r"""What a command takes: a group in braces, or one token; of a numeral one digit (`\frac12`)."""
        token = self._peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            first, rest = token.text[0], token.text[1:]
            self.tokens = [
                *self.tokens[: self.position],
                Token("number", first, Fraction(first)),
                Token("number", rest, Fraction(rest)),
                *self.tokens[self.position + 1 :],
            ]
        self._deepen()
        if self._is_mark("-"):
            raise Unreadable("a sign in place of an argument")
        token = self._peek()
        node = Number(self._next().value) if token.kind == "number" else self._primary()
        self.depth -= 1
        return node

    def _command(self, name: str) -> Node:
        if name == "pi":
            return Symbol("pi")
        if name == "infty":
            return Symbol("inf")
        if name in ("emptyset", "varnothing", "empty"):
            return SetOf(())
        if name in _FRACTIONS:
            above = self._argument()
            return Apply("/", (above, self._argument()))
        if name in ("binom", "dbinom", "tbinom"):
            above = self._argument()
            return Apply("binom", (above, self._argument()))
        if name == "sqrt":
            return self._root()
        if name in FUNCTIONS:
            return self._function(name)
        if name in _GREEK:
            return self._symbol(name)
        if name in _FENCES:
            return self._fence(*_FENCES[name])
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
        if not self._is_mark("["):
            return Apply("sqrt", (self._argument(),))
        degree = _parse_list(self._enclosed("["), self.depth + 1)
        return Apply("root", (self._argument(), degree))

    def _function(self, name: str) -> Node:
        """A function with its power and base (`\\sin^2 x`, `\\log_2 8`); without brackets it takes a product."""
        exponent = base = None
        while self._is_mark("^", "_"):
            if self._next().text == "_":
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
        token = self._peek()
        return Number(self._next().value) if token.kind == "number" else self._argument()

    def _exponent_argument(self) -> Node:
        if self._is_mark("-"):
            self._next()
            return Apply("neg", (self._argument_or_number(),))
        return self._argument_or_number()

    def _function_argument(self) -> Node:
        self._deepen()
        if self._is_mark("(", "[", "{", "|"):
            node = self._primary()
            while self._is_mark("deg", "!"):
                node = Apply(self._next().text, (node,))
        elif self._is_command(FUNCTIONS):
            node = self._power()
        else:
            node = self._bare_argument()
        self.depth -= 1
        return node

    def _bare_argument(self) -> Node:
        """The argument of a function without brackets: factors up to the next function, bracket, + or -."""
        factors, divisions = [self._signed_power()], 0
        while True:
            if self._starts_factor() and not self._is_command(FUNCTIONS) and not self._is_mark("(", "["):
                self._juxtapose(factors)
            elif self._is_mark("/"):
                self._next()
                divisions = _counted(divisions)
                factors = [Apply("/", (_joined("*", factors), self._signed_power()))]
            else:
                return _joined("*", factors)

    def _fence(self, closing: str, operation: str) -> Node:
        start, depth = self.position, 1
        opening = self.tokens[start - 1].text
        while depth:
            token = self._next()
            if token is _END:
                raise Unreadable("a bracket is not closed")
            depth += (token.text == opening) - (token.text == closing)
        return Apply(operation, (_Parser(self.tokens[start : self.position - 1], self.depth + 1).whole(),))

    def _angles(self) -> Node:
        start = self.position
        while (token := self._next()).text != "rangle":
            if token is _END:
                raise Unreadable("a bracket is not closed")
        node = _parse_list(self.tokens[start : self.position - 1], self.depth + 1)
        if not isinstance(node, Listing):
            raise Unreadable("one value in angle brackets")
        return Bracketed("(", node.items, ")")

    def _of_several(self, name: str) -> Node:
        """`\\max(1, 2)`, `\\gcd\\{12, 18\\}`."""
        if not self._is_mark("(", "\\{", "["):
            raise Unreadable(f"{name} of nothing")
        node = _parse_list(self._enclosed(self._peek().text), self.depth + 1)
        return Apply(name, node.items if isinstance(node, Listing) else (node,))

    def _big(self, name: str) -> Node:
        """A sum or product over a range: lower `k=1` and upper bound, then the body up to the next + or -."""
        lower = upper = None
        while self._is_mark("^", "_"):
            is_lower = self._next().text == "_"
            if is_lower and self._is_mark("{"):
                lower = _parse_item(self._enclosed("{"), self.depth + 1)
            elif not is_lower:
                upper = self._argument_or_number()
        is_range = isinstance(lower, Relation) and lower.operators == ("=",) and isinstance(lower.sides[0], Symbol)
        if not is_range or upper is None:
            raise Unreadable("a sum without a range")
        self._deepen()
        body = self._factors()
        return Apply(name, (lower.sides[0], lower.sides[1], upper, body))

    def _matrix(self, kind: str) -> Node:
        start, depth = self.position, 1
        while depth:
            token = self._next()
            if token is _END:
                raise Unreadable("a matrix is not closed")
            depth += token.text.startswith("begin ") - token.text.startswith("end ")
        rows, _ = _split(self.tokens[start : self.position - 1], lambda token: token.text == "\\")
        cells = [_split(row, lambda token: token.text == "&")[0] for row in rows if row]
        if not cells or len({len(row) for row in cells}) > 1:
            raise Unreadable("rows of different length")
        parsed = tuple(tuple(_parse_item(cell, self.depth + 1) for cell in row) for row in cells)
        return Matrix(parsed, kind == "vmatrix")


_END = Token("end", "")


def _joined(operation: str, operands: list[Node]) -> Node:
    return operands[0] if len(operands) == 1 else Apply(operation, tuple(operands))


def _counted(count: int) -> int:
    """One more of what nests the tree; raises TooComplex beyond the greatest depth."""
    if count >= MAX_DEPTH:
        raise TooComplex("nested too deeply")
    return count + 1


def _set_of(inner: list[Token], depth: int) -> Node:
    if not inner:
        return SetOf(())
    runs, bars = _split(inner, lambda token: token.text in ("|", ":", "mid"))
    if len(bars) == 1 and runs[0] and runs[1]:
        return _described(runs[0], runs[1], depth)
    node = _parse_list(inner, depth)
    return SetOf(node.items if isinstance(node, Listing) else (node,))


def _described(variable: list[Token], condition: list[Token], depth: int) -> Node:
    r"""`\\{x \\mid x > 0\\}` is what its condition says, where it is one about the variable."""
    subject = _parse_item(variable, depth)
    if isinstance(subject, Relation) and subject.operators == ("in",) and subject.sides[1] == REALS:
        subject = subject.sides[0]
    if not isinstance(subject, Symbol):
        raise Unreadable("a set of what is no variable")
    node = _parse_list(condition, depth)
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
    base = _NUMBER_NAMES.index(subscript) if subscript in _NUMBER_NAMES else 0
    if subscript.isdigit() and len(subscript) < 3:
        base = int(subscript)
    if not 2 <= base <= MAX_BASE or not digits.isalnum():
        raise Unreadable("a base that is none")
    if any(int(digit, 36) >= base for digit in digits):
        raise Unreadable("a digit that its base lacks")
    return Based(digits.lstrip("0").upper() or "0", base)
