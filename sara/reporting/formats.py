"""How numbers are written for readers: one place, so table, page and figures agree."""

from sara.reporting.estimates import Estimate

NOTHING = "–"  # a figure that is not known


def count(number: float | None) -> str:
    """Three significant figures: 812, 12.3k, 4.56M."""
    if number is None:
        return NOTHING
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * size:
            scaled = number / size
            decimals = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            return f"{scaled:.{decimals}f}{suffix}"
    return f"{number:.0f}"


def tick(number: float) -> str:
    """As `count`, without zeros that say nothing: 2.5k rather than 2.50k."""
    written = count(number)
    digits, suffix = written.rstrip("kMG"), written[len(written.rstrip("kMG")) :]
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + suffix


def steps(number: float | None) -> str:
    return NOTHING if number is None else f"{number:.1f}".removesuffix(".0")


def percent(number: float | None) -> str:
    """A number that is already a percentage."""
    return NOTHING if number is None else f"{number:.0f}%"


def share(fraction: float | None) -> str:
    """A fraction as a percentage; only exactly 1 reads 100%."""
    if fraction is None:
        return NOTHING
    return "100%" if fraction == 1 else f"{min(100 * fraction, 99.9):.1f}%"


def score(estimate: Estimate | None) -> str:
    """A fraction in percent, without the sign."""
    return NOTHING if estimate is None else f"{100 * estimate.value:.1f}"


def interval(estimate: Estimate | None) -> str:
    """The 95% interval in percent; empty when it is not known."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{100 * estimate.low:.1f}–{100 * estimate.high:.1f}"


def points(estimate: Estimate | None) -> str:
    """A difference of scores in percentage points, signed."""
    return NOTHING if estimate is None else _signed(estimate.value)


def points_interval(estimate: Estimate | None) -> str:
    """Its 95% interval; empty when it is not known."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{_signed(estimate.low)} to {_signed(estimate.high)}"


def _signed(fraction: float) -> str:
    written = f"{100 * fraction:+.1f}"
    return "0.0" if written in ("+0.0", "-0.0") else written.replace("-", "−")


def rounds(number: float | None) -> str:
    return NOTHING if number is None else f"{number:.1f}"


def panel_name(name: str) -> str:
    """A name from outside: short enough for a figure, and no formula for matplotlib to parse."""
    short = name if len(name) <= 18 else name[:17] + "…"
    return short.replace("$", r"\$")


def duration(seconds: float | None) -> str:
    """42 s, 3m 05s, 2h 07m, 6d 11h: the two largest units."""
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"
