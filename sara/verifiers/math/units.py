"""Units that answers carry: which words they are, and which can be turned into each other exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_NAMES = {
    "mm": ("mm", "millimeter", "millimeters", "millimetre", "millimetres"),
    "cm": ("cm", "centimeter", "centimeters", "centimetre", "centimetres"),
    "m": ("m", "meter", "meters", "metre", "metres"),
    "km": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    "inch": ("in", "inch", "inches"),
    "foot": ("ft", "foot", "feet"),
    "yard": ("yd", "yard", "yards"),
    "mile": ("mi", "mile", "miles"),
    "second": ("s", "sec", "secs", "second", "seconds"),
    "minute": ("min", "mins", "minute", "minutes"),
    "hour": ("h", "hr", "hrs", "hour", "hours"),
    "day": ("day", "days"),
    "week": ("week", "weeks"),
    "gram": ("g", "gram", "grams"),
    "kg": ("kg", "kilogram", "kilograms"),
    "ounce": ("oz", "ounce", "ounces"),
    "pound": ("lb", "lbs", "pound", "pounds"),
    "cent": ("cent", "cents"),
    "dollar": ("dollar", "dollars", "usd"),
    "mph": ("mph",),
    "radian": ("rad", "radian", "radians"),
    "am": ("am",),
    "pm": ("pm",),
}
_SCALES: dict[str, tuple[str, Fraction]] = {
    "mm": ("length", Fraction(1)),
    "cm": ("length", Fraction(10)),
    "m": ("length", Fraction(1000)),
    "km": ("length", Fraction(1_000_000)),
    "inch": ("length", Fraction(254, 10)),
    "foot": ("length", Fraction(3048, 10)),
    "yard": ("length", Fraction(9144, 10)),
    "mile": ("length", Fraction(1_609_344)),
    "second": ("time", Fraction(1)),
    "minute": ("time", Fraction(60)),
    "hour": ("time", Fraction(3600)),
    "day": ("time", Fraction(86_400)),
    "week": ("time", Fraction(604_800)),
    "gram": ("mass", Fraction(1)),
    "kg": ("mass", Fraction(1000)),
    "ounce": ("weight", Fraction(1)),
    "pound": ("weight", Fraction(16)),
    "cent": ("money", Fraction(1)),
    "dollar": ("money", Fraction(100)),
    "am": ("morning", Fraction(1)),
    "pm": ("afternoon", Fraction(1)),
}
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in names}

PLAIN_UNITS = frozenset(name for name in _CANONICAL if len(name) > 1) | {"sq", "square", "cubic", "units", "unit"}
"""Words that are units even where they stand in mathematics without `\\text`; single letters are variables."""

_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_KNOWN = re.compile(r"([a-z]+)(?:\^([23]))?(?:/([a-z]+)(?:\^([23]))?)?")


def canonical_unit(words: str) -> str:
    """One key for equal units: `square centimeters`, `sq. cm` and `cm^2` are `cm^2`. Unknown words stay as they are."""
    text = re.sub(r"\b([ap])\s*\.?\s*m\b", r"\1m", words.casefold()).replace(".", " ").replace(" per ", " / ")
    parts: list[str] = []
    power = 0
    for word in re.findall(r"[^\W\d_]+|\^\s*-?\d+|/|\d+", text):
        if word in _POWERS:
            power = _POWERS[word]
        elif word.startswith("^"):
            parts.append(word.replace(" ", ""))
        else:
            parts.append(_CANONICAL.get(word, word) + (f"^{power}" if power else ""))
            power = 0
    return {"mile/hour": "mph", "dollars": "dollar"}.get("".join(parts), "".join(parts))


def conversion(of: str, into: str) -> Fraction | None:
    """Factor from one unit to another; None where either is not known, or they measure different things."""
    left, right = _measure(of), _measure(into)
    return left[1] / right[1] if left and right and left[0] == right[0] else None


def measured(unit: str) -> str | None:
    """What a unit measures, such as `length^2`; None for words that are no unit."""
    measure = _measure(unit)
    return measure[0] if measure else None


def _measure(unit: str) -> tuple[str, Fraction] | None:
    """What a unit measures and its size; None for words that are no unit (apples, ways, units)."""
    if unit == "mph":
        return _measure("mile/hour")
    match = _KNOWN.fullmatch(unit)
    if match is None or match[1] not in _SCALES or (match[3] and match[3] not in _SCALES):
        return None
    kind, size = _SCALES[match[1]]
    power = int(match[2] or 1)
    kind, size = f"{kind}^{power}", size**power
    if match[3]:
        below, below_size = _SCALES[match[3]]
        below_power = int(match[4] or 1)
        kind, size = f"{kind}/{below}^{below_power}", size / below_size**below_power
    return kind, size
