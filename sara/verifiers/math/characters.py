r"""Turns the characters of Unicode that stand for mathematics into LaTeX: `√2` into `\sqrt{2}`, `x²` into `x^{2}`."""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ", "0123456789+-=()nix")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙᵢₓₐ", "0123456789+-=()nixa")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ]+")
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙᵢₓₐ]+")
_ROOT = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?|[A-Za-z]|(?=[({\\]))")
_ROOT_DEGREES = {"√": "", "∛": "[3]", "∜": "[4]"}
_INVISIBLE = dict.fromkeys(
    [0, 0xAD, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10)]
)
_SYMBOLS = {
    **dict.fromkeys("−–—‐‑‒﹣－", "-"),
    **dict.fromkeys("×✕✖⨯", r"\times "),
    **dict.fromkeys("·⋅∙•∗", r"\cdot "),
    **dict.fromkeys("÷∕⁄", "/"),
    **dict.fromkeys("⟨〈", r"\langle "),
    **dict.fromkeys("⟩〉", r"\rangle "),
    **dict.fromkeys("∅⌀", r"\emptyset "),
    **dict.fromkeys("£€¥", r"\$"),
    "∞": r"\infty ",
    "±": r"\pm ",
    "∓": r"\mp ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "⩽": r"\le ",
    "⩾": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∈": r"\in ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∖": r"\setminus ",
    "¢": r"\text{ cents }",
    "°": r"^\circ ",
    "˚": r"^\circ ",
    "º": r"^\circ ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}",
    "ℂ": r"\mathbb{C}",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "∑": r"\sum ",
    "∏": r"\prod ",
    "∫": r"\int ",
    "′": "'",
    "’": "'",
    "…": r"\ldots ",
    "△": r"\triangle ",
    "∠": r"\angle ",
    "∣": "|",
}
_GREEK = {
    letter: f"\\{name} "
    for name, letter in {
        "alpha": "α",
        "beta": "β",
        "gamma": "γ",
        "delta": "δ",
        "epsilon": "ε",
        "zeta": "ζ",
        "eta": "η",
        "theta": "θ",
        "kappa": "κ",
        "lambda": "λ",
        "mu": "μ",
        "nu": "ν",
        "xi": "ξ",
        "pi": "π",
        "rho": "ρ",
        "sigma": "σ",
        "tau": "τ",
        "phi": "φ",
        "chi": "χ",
        "psi": "ψ",
        "omega": "ω",
        "Delta": "Δ",
        "Omega": "Ω",
        "Sigma": "Σ",
        "Phi": "Φ",
    }.items()
}
_TABLE = str.maketrans({**_SYMBOLS, **_GREEK}) | _INVISIBLE
_VULGAR = re.compile("[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞↉]")


def to_latex(text: str) -> str:
    """The text with mathematical characters as LaTeX, wide letters and digits as plain ones, invisible marks gone."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    text = _VULGAR.sub(_fraction, text)
    text = _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run.group().translate(_SUPERSCRIPTS)}}}", text)
    text = _SUBSCRIPT_RUN.sub(lambda run: f"_{{{run.group().translate(_SUBSCRIPTS)}}}", text)
    text = _ROOT.sub(lambda root: f"\\sqrt{_ROOT_DEGREES[root[1]]}" + (f"{{{root[2]}}}" if root[2] else ""), text)
    return unicodedata.normalize("NFKC", text.translate(_TABLE)).translate(_TABLE)


def _fraction(vulgar: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", vulgar.group()).partition("⁄")
    return f"\\frac{{{above}}}{{{below}}}"
