r"""Cuts the text of an answer into tokens: numbers, symbols, commands, words.

Owns what is read past (spaces, sizes of brackets, dollar signs, fonts), the forms of numerals (thousands marks,
repeating decimals, powers of ten written with an e) and which letters are words and which variables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from sara.verifiers.math.syntax import names
from sara.verifiers.math.units import PLAIN_UNITS


class Unreadable(ValueError):
    """The text is no answer that is understood here."""


class TooComplex(Unreadable):
    """The text is longer, deeper or of more digits than any answer."""


@dataclass(frozen=True)
class Token:
    """kind is `number`, `symbol`, `command`, `word`, `joint` or `mark`; value belongs to numbers alone."""

    kind: str
    text: str
    value: Fraction | None = None


MONEY = "\\$"
"""The word that stands for a sign of money before or behind a number."""
MAX_DIGITS = 1_500
MAX_EXPONENT_DIGITS = 4
"""Of numerals such as `1e400`: greater powers of ten are written by no one as an answer."""

FUNCTIONS = names("sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth ln log lg exp")
_OF_SEVERAL = frozenset({"gcd", "lcm", "max", "min"})
_BEFORE_DIGITS = frozenset({"_", "^", "frac", "dfrac", "tfrac", "cfrac", "binom", "sqrt"})
"""What takes the digits that follow for itself: `\\log_2 256` has no thousands in it."""
_PLAIN_COMMANDS = FUNCTIONS | {"sqrt", "pi", "theta", "infty", "alpha", "beta", "frac", "cdot", "binom", "pm", "cup"}
_RENAMED = {"infinity": "infty", "inf": "infty", "oo": "infty", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}

_SPACES = re.compile(
    r"(?:\s|~|\\[,;:!> ]|\$|\\[()](?![A-Za-z])|\\[\[\]]|\\(?:quad|qquad|left|right|displaystyle|textstyle|limits|"
    r"nolimits|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|biggl|biggr|middle|nonumber|hfill|rm|bf|it|thinspace|"
    r"scriptstyle|hline|mathstrut|enspace|boldsymbol|bm|mathbf|mathit|mathsf|mathcal|vec|overrightarrow|hat|pmb|large|Large|LARGE|"
    r"huge|Huge|small|normalsize|rule)"
    r"(?![A-Za-z])\.?|\\(?:hspace|vspace|phantom|label|tag|hphantom|color|textcolor)\*?\s*\{[^{}]*\}|\\phantom\s*-)"
)
_THOUSANDS = r"(?:\{,\}|,\s*\\!\s*|\\!\s*,|\{\\,\}|\\,|\\;|\\:|\\ |~)"
_GROUPED = re.compile(rf"\d{{1,3}}(?:{_THOUSANDS}\d{{3}})+(?!\d)(?:\.\d+)?")
_COMMAS = re.compile(r"\d+(?:,\d+)+(?:\.\d+)?")
_COMMA_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_SPACE_GROUPED = re.compile(r"[1-9]\d{0,2}(?: \d{3})+(?![\d/.])")
_DECIMAL = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_SCIENTIFIC = re.compile(r"(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![\dA-Za-z])")
_REPEATING = [
    re.compile(r"(\d{0,60})\.(\d{0,60})\\(?:overline|bar|dot)\s{0,9}(?:\{\s{0,9}(\d{1,60})\s{0,9}\}|(\d))"),
    re.compile(r"(\d{1,60})\.(\d{0,60})\((\d{1,60})\)"),
    re.compile(r"(\d{1,60})\.(\d{0,60}?)(?:(\d)\3{2,60})(?:\s{0,9}\\[lc]?dots|\.\.\.)(?![A-Za-z])"),
    re.compile("(\\d{1,60})\\.(\\d{0,60}?)((?:\\d[\u0304\u0305]){1,60})"),
]
_TEXT = re.compile(
    r"\\(?:emph|text(?:rm|bf|it|sf|tt|normal|up|md|sc)?|mathrm|mbox|hbox|operatorname\*?|mathtt|mathbb)\s*\{"
)
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)", re.DOTALL)
_LETTERS = re.compile(r"[A-Za-z]+")
_DEGREE = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\(?:degree|textdegree|deg)(?![A-Za-z])")
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([A-Za-z]+)\*?\}(?:\s*\{[clr|\s]*\})?")
_COMPARISONS = {"<=": "<=", ">=": ">=", "!=": "!=", "=<": "<=", "==": "="}
_JOINTS = {"and": "and", "or": "or", "&": "and"}
_LOGIC = {"lor": "or", "vee": "or", "land": "and", "wedge": "and"}
_HALF_OF_DAY = re.compile(r"([AaPp])\.\s?[Mm](?![A-Za-z])\.?")
_ROW_END = re.compile(r"\s*\[-?\d*\.?\d+\s*(?:pt|em|ex|cm|mm|in)\]")
_RELATION_COMMANDS = {
    "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=", "ne": "!=", "neq": "!=",
    "lt": "<", "gt": ">", "in": "in", "approx": "~", "approxeq": "~", "simeq": "~", "equiv": "=",
}  # fmt: skip
_MARKS = frozenset("+-*/^_()[]{},;|!=<>:%'&.?")
_TEXT_PIECE = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\.?|\d[\d,.]*|\S")
_NUMBERSETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
_SHORT_WORDS = names(
    "yes true false none east west north south even odd day days way ways two one six ten and the may men box"
)


def tokenize(latex: str) -> list[Token]:
    """Tokens of an answer (as `to_latex` gives it) in order; raises Unreadable for what has no meaning in an answer."""
    return _Lexer(latex).run()


class _Lexer:
    def __init__(self, text: str):
        self.text = text
        self.position = 0
        self.depth = 0  # of round, square and set brackets: a comma inside them separates
        self.tokens: list[Token] = []

    def run(self) -> list[Token]:
        while self.position < len(self.text):
            self._step()
        return self.tokens

    def _step(self) -> None:
        character = self.text[self.position]
        if (
            character.isdigit()
            or (character == "." and self.text[self.position + 1 : self.position + 2].isdigit())
            or (character == "." and _REPEATING[0].match(self.text, self.position))
        ):
            self._number()
        elif character.isalpha():
            self._letters()
        elif match := _DEGREE.match(self.text, self.position):
            self._add("mark", "deg", match.end())
        elif match := _SPACES.match(self.text, self.position):
            self.position = match.end()
        elif character == "\\":
            self._command()
        else:
            self._mark(character)

    def _add(self, kind: str, text: str, end: int, value: Fraction | None = None) -> None:
        self.tokens.append(Token(kind, text, value))
        self.position = end

    def _number(self) -> None:
        text, start = self.text, self.position
        for pattern in _REPEATING:
            if match := pattern.match(text, start):
                return self._add("number", match.group(), match.end(), _repeating(match))
        if match := _SCIENTIFIC.match(text, start):
            return self._add("number", match.group(), match.end(), _scientific(match))
        match = None
        if not (self.tokens and self.tokens[-1].text in _BEFORE_DIGITS):
            match = _GROUPED.match(text, start) or _SPACE_GROUPED.match(text, start)
        if match is None and self.depth == 0 and (run := _COMMAS.match(text, start)):
            match = _COMMA_GROUPED.fullmatch(text, start, run.end())
        if match is None:
            match = _DECIMAL.match(text, start)
        if match is None:
            raise Unreadable("digits that are not 0 to 9")
        digits = "".join(re.findall(r"[\d.]", match.group()))
        self._add("number", digits, match.end(), _decimal(digits))

    def _letters(self) -> None:
        match = _LETTERS.match(self.text, self.position)
        if match is None:
            match = re.compile(r"[^\W\d_]+").match(self.text, self.position)
            return self._add("word", match.group().casefold(), match.end())
        run, end = match.group(), match.end()
        if half := _HALF_OF_DAY.match(self.text, self.position):
            return self._add("word", half[1].lower() + "m", half.end())
        if run == "to" and self._follows_value():
            return self._add("mark", ":", end)
        if run.lower() in _JOINTS and len(run) > 1:
            return self._add("joint", _JOINTS[run.lower()], end)
        if run == "U" and self.tokens and self.tokens[-1].text in (")", "]", "}"):
            return self._add("command", "cup", end)
        if self._is_word(run):
            return self._add("word", run.casefold(), end)
        self.position = end
        self.tokens += _split_letters(run)

    def _follows_value(self) -> bool:
        return bool(self.tokens) and (self.tokens[-1].kind == "number" or self.tokens[-1].text in (")", "}"))

    def _is_word(self, run: str) -> bool:
        before = self.tokens[-1] if self.tokens else None
        is_apart = before is None or self.text[self.position - 1] in " \t\r\n~,.;:({!" or before.kind == "word"
        if before is not None and run.casefold() in PLAIN_UNITS and before.text not in ("^", "_", "frac", "sqrt", "{"):
            return True
        if run in _PLAIN_COMMANDS or run in _RENAMED or _split_letters(run)[0].kind == "command":
            return False
        return (is_apart and ((len(run) >= 4 and not run.isupper()) or run.casefold() in _SHORT_WORDS)) or (
            is_apart and before is not None and before.kind in ("number", "word") and len(run) >= 3
        )

    def _command(self) -> None:
        if match := _ENVIRONMENT.match(self.text, self.position):
            return self._add("command", f"{match[1]} {match[2]}", match.end())
        if match := _TEXT.match(self.text, self.position):
            return self._text(match)
        match = _COMMAND.match(self.text, self.position)
        if match is None:
            raise Unreadable("a backslash at the end")
        name = match.group()[1:]
        if name in _RELATION_COMMANDS:
            return self._add("mark", _RELATION_COMMANDS[name], match.end())
        if name in ("{", "}", "%", "&", "_", "#"):
            self.depth += {"{": 1, "}": -1}.get(name, 0)
            return self._add("mark", "%" if name == "%" else f"\\{name}", match.end())
        if name == "$":
            return self._add("word", MONEY, match.end())
        if name in _LOGIC:
            return self._add("joint", _LOGIC[name], match.end())
        if name == "\\" and (gap := _ROW_END.match(self.text, match.end())):
            return self._add("command", name, gap.end())
        if name in ("lbrace", "rbrace"):
            return self._add("mark", "\\{" if name == "lbrace" else "\\}", match.end())
        if name in ("not",):
            return self._negate(match.end())
        return self._add("command", {"|": "Vert"}.get(name, name), match.end())

    def _negate(self, end: int) -> None:
        following = re.compile(r"\s*(=|\\in(?![A-Za-z]))").match(self.text, end)
        if following is None or following[1] != "=":
            raise Unreadable("a negation")
        self._add("mark", "!=", following.end())

    def _text(self, opening: re.Match[str]) -> None:
        r"""Words inside `\text{...}`; what is no word in there is read as mathematics."""
        depth, end = 1, opening.end()
        while end < len(self.text) and depth:
            depth += {"{": 1, "}": -1}.get(self.text[end], 0)
            end += 1
        if depth:
            raise Unreadable("a brace that is not closed")
        content = self.text[opening.end() : end - 1]
        if opening.group().startswith("\\mathbb"):
            if content.strip() not in _NUMBERSETS:
                raise Unreadable("a set without a name here")
            return self._add("symbol", _NUMBERSETS[content.strip()], end)
        if content.strip() in _OF_SEVERAL and opening.group().startswith("\\operatorname"):
            return self._add("command", content.strip(), end)
        for piece in _TEXT_PIECE.finditer(content) if "\\" not in content else ():
            self._text_piece(piece.group())
        if "\\" in content:
            inner = _Lexer(content)
            inner.depth = self.depth
            self.tokens += inner.run()
        self.position = end

    def _text_piece(self, piece: str) -> None:
        word = piece.casefold().rstrip(".")
        if word in _JOINTS:
            self._add("joint", _JOINTS[word], self.position)
        elif word == "to" and self._follows_value():
            self._add("mark", ":", self.position)
        elif len(piece) == 1 and (piece.isupper() or piece in "ie"):  # i and e name no unit
            self._add("symbol", piece, self.position)
        elif piece in FUNCTIONS:
            self._add("command", piece, self.position)
        elif piece[0].isalpha():
            self._add("word", piece.casefold(), self.position)
        else:
            inner = _Lexer(piece)
            inner.depth = self.depth
            self.tokens += inner.run()

    def _is_factorial(self, two: str) -> bool:
        """Whether the `!` of `5!=120` belongs to the number before it."""
        return two == "!=" and self.position > 0 and self.text[self.position - 1] in "0123456789)"

    def _mark(self, character: str) -> None:
        two = self.text[self.position : self.position + 2]
        if two in _COMPARISONS and not self._is_factorial(two):
            return self._add("mark", _COMPARISONS[two], self.position + 2)
        if two == "**":
            return self._add("mark", "^", self.position + 2)
        if character not in _MARKS:
            raise Unreadable(f"the character U+{ord(character):04X}")
        self.depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        self._add("mark", character, self.position + 1)


def _split_letters(run: str) -> list[Token]:
    """Variables one by one, with the names of functions and of pi found among them; three capitals are one name."""
    if run in _PLAIN_COMMANDS or run in _RENAMED or run.lower() in _RENAMED:
        return [Token("command", _RENAMED.get(run, _RENAMED.get(run.lower(), run)))]
    if run.isupper() and len(run) > 2:
        return [Token("symbol", run)]
    for name in ("arcsin", "arccos", "arctan", "sqrt", "sin", "cos", "tan", "log", "ln", "pi"):
        before, found, after = run.partition(name)
        if found and len(before) <= 2 and len(after) <= 2:
            return [*_split_letters(before), Token("command", name), *_split_letters(after)] if run else []
    return [Token("symbol", letter) for letter in run] if run else []


def _decimal(digits: str) -> Fraction:
    if len(digits) > MAX_DIGITS:
        raise TooComplex("too many digits")
    return Fraction(digits)


def _scientific(match: re.Match[str]) -> Fraction:
    if len(match[2].lstrip("+-0")) > MAX_EXPONENT_DIGITS:
        raise TooComplex("too great a power of ten")
    return _decimal(match[1]) * Fraction(10) ** int(match[2])


def _repeating(match: re.Match[str]) -> Fraction:
    """0.1 and then 6 for ever: 1/10 + 6/90."""
    whole, fixed = match[1] or "0", match[2]
    repeated = "".join(re.findall(r"\d", next(group for group in match.groups()[2:] if group)))
    start = _decimal(whole + "." + (fixed or "0"))
    if len(repeated) > MAX_DIGITS:
        raise TooComplex("too many digits")
    return start + Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(fixed))
