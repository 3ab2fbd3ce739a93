from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.verifiers import Verdict, is_scorable_gold, verify_math
from sara.verifiers.math import grade_math

DATA = Path(__file__).parents[5] / "shared" / "data"

EQUAL = [
    # numbers
    (r"\frac{1}{2}", [r"0.5", r"1/2", r"\tfrac12", r"\frac{-1}{-2}", r".5", r"½", r"50\%", r"2^{-1}", r"\frac{4}{8}"]),
    ("1000000", [r"10^6", "1,000,000", r"1{,}000{,}000", r"1\,000\,000", "1 000 000", "1e6", "1000000.0", "1000000."]),
    (r"\frac{1}{6}", [r"0.1\overline{6}", "0.1(6)", r"0.1666\ldots"]),
    ("1", [r"0.\overline{9}", "e^0", r"\sin 90^\circ", r"\cos^2 3 + \sin^2 3", "001", r"\log_7 7", "1!"]),
    ("2.5", [r"2\frac{1}{2}", "2 1/2", r"\frac52", "2½"]),
    (r"-15\frac{3}{5}", ["-15.6", r"-\frac{78}{5}"]),
    ("-1", [r"e^{i\pi}", "i^2", "−1", r"\cos 180^\circ"]),
    (r"1+\sqrt{2}", [r"\sqrt{3+2\sqrt{2}}", "√2 + 1", r"\frac{1}{\sqrt{2}-1}", "1 + 2^{0.5}"]),
    (r"\tan 15^\circ", [r"2-\sqrt{3}", r"\tan\frac{\pi}{12}"]),
    (r"90^\circ", ["90", r"90 \text{ degrees}", r"\frac{\pi}{2}", "90°"]),
    (r"20\%", ["20", "0.2", r"20 \text{ percent}", r"\frac15"]),
    ("2^{4950}", ["4^{2475}"]),
    (r"\frac{1}{2004!}", [r"\frac{2005}{2005!}"]),
    # units and money
    ("12", [r"12\text{ square units}", "12 apples", r"\$12", r"12\text{.}"]),
    (r"5 \text{ cm}", ["5", "5cm", r"50\text{ mm}", r"5 \mathrm{~cm}"]),
    (r"15\mbox{ cm}^2", ["15", r"15 \text{ square centimeters}", r"15\,\text{cm}^2"]),
    (r"80\text{ cents}", [r"\$0.80", "80"]),
    (r"\$32,\!348", ["32348", r"32{,}348\text{ dollars}"]),
    (r"\$\dfrac23 \approx \$0.67", [r"\frac{2}{3}", "0.67"]),
    # formulas
    ("x^2+2x+1", ["(x+1)^2", "(1+x)(x+1)", "x²+2x+1", r"f(x) = x^2+2x+1"]),
    ("|x|", [r"\sqrt{x^2}", r"\left|x\right|", r"\lvert x\rvert"]),
    (r"10p^3\sqrt{3p}", [r"10\sqrt{3p^7}"]),  # where p >= 0, as the square root says
    (r"\sec^2 y", [r"1+\tan^2 y", r"\frac{1}{\cos(y)^2}"]),
    (r"\arcsin x", [r"\sin^{-1} x", r"\frac{\pi}{2}-\arccos x"]),
    (r"\binom{n}{2}", [r"\frac{n(n-1)}{2}"]),
    (r"\frac{n(n+1)}{2}", [r"\sum_{k=1}^{n} k", r"\binom{n+1}{2}"]),
    ("(-1)^n", [r"\cos(n\pi)"]),
    # equations
    ("x=5", ["5", "5=x", r"x = 5.0"]),
    ("y=2x+3", ["2x+3", "2x-y+3=0", "f(x)=3+2x"]),
    (r"\frac{x^2}{4}+\frac{y^2}{3}=1", ["3x^2+4y^2=12"]),
    (r"s^2 \le 8r^2", [r"8r^2 \ge s^2"]),
    # lists, sets, points, intervals
    ("1, 2", ["2, 1", r"\{1,2\}", r"1 \text{ and } 2", "x=1 or x=2", r"x \in \{2,1\}"]),
    (r"\pm 3", ["3, -3", r"\{-3, 3\}"]),
    (r"\{1\pm\sqrt{5},-2\}", [r"-2, 1+\sqrt5, 1-\sqrt5"]),
    ("(2,4)", ["(2, 4)", "x=2, y=4", "(x,y)=(2,4)", r"\langle 2, 4\rangle", r"\begin{pmatrix}2\\4\end{pmatrix}"]),
    ("AB=9, CD=4", ["CD=4, AB=9", "9, 4"]),
    ("(2,100)", ["(2, 100)"]),
    ("x<3", [r"(-\infty,3)", "3>x", "(-∞,3)", r"\{x \mid x<3\}"]),
    ("[-2,7]", [r"-2 \le x \le 7", r"x \in [-2,7]", r"[-2,1]\cup[1,7]", r"x \ge -2 \text{ and } x \le 7"]),
    (r"(-\infty,3)\cup(3,\infty)", [r"x \ne 3", r"\mathbb{R}\setminus\{3\}", r"(3,\infty)\cup(-\infty,3)"]),
    (r"\emptyset", [r"\varnothing", r"\{\}", "∅", r"\text{no solution}"]),
    (r"\begin{pmatrix}1&0\\0&1\end{pmatrix}", [r"\begin{bmatrix}1 & 0 \\ 0 & 1 \\ \end{bmatrix}"]),
    # numerals, ratios, times
    ("28_9", ["28_{9}", "28", r"28_{\text{nine}}", "101_5"]),
    ("26", ["28_9", "1A_{16}"]),
    ("3:5", ["6:10", r"\frac35", "3 : 5"]),
    (r"8\!:\!34 \text{ p.m.}", ["8:34 PM", "8:34"]),
    # words and choices
    (r"\text{east}", ["East", r"\mathrm{east}", "east."]),
    (r"\text{(C)}", ["C", r"\textbf{(C)}", r"\textbf{(C) }12", "Option C"]),
    (r"\text{A, B}", ["B, A", "A and B"]),
    (r"\text{October 30}", ["October 30"]),
    (r"\mbox{four}", ["4"]),
    # spelling
    (
        "42",
        [
            "**42**",
            r"\underline{42}",
            r"\large 42",
            r"\mathrm{42}",
            r"\(42\)",
            "４２",
            r"42\,",
            r"\text{42.}",
            "6 \\cdot 7 = 42",
        ],
    ),
    (
        "10",
        [
            r"\binom{5}{2}",
            r"{5 \choose 2}",
            r"\frac{5!}{3!2!}",
            r"\gcd(20, 30)",
            r"\sum_{k=1}^{4} k",
            "ten",
            "23 \\bmod 13",
        ],
    ),
    (r"24\text{ km/h}", ["24 km/h", r"24 \text{ km per hour}"]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\left[\begin{array}{cc}1&2\\3&4\end{array}\right]"]),
    ("2", [r"\log 100", r"\ln e^2", r"\lfloor 2.7 \rfloor", r"|-2|", r"\max(1, 2)", r"\sqrt[3]{8}", "∛8", "8^{1/3}"]),
    (r"x=\pm 3", ["3, -3", r"x=3 \text{ or } x=-3"]),
]

DIFFERENT = [
    (r"\frac{1}{3}", ["0.333", "0.3333333333333333", "3", r"0.\overline{4}"]),
    (r"\pi", ["3.14159265358979", r"\frac{22}{7}"]),
    (r"\frac{1}{2^{99}}", [r"\frac{1}{2^{98}}", "0"]),
    ("1", ["1+10^{-100}", "1, 1", r"1 \text{ or } 2", "1x"]),
    ("20", ["0.2", r"200\%"]),
    (r"20\%", [r"0.2\%", r"20^\circ"]),
    (r"\frac{\pi}{6}", ["30"]),
    ("2", [r"2\frac{2}{3}", r"\pm 2", "2x", r"\{2, 3\}"]),
    (r"5 \text{ cm}", [r"5 \text{ m}", r"5 \text{ hours}", r"5\%"]),
    ("x^2+1", ["x^2", "y^2+1", "X^2+1", "x^2+1=0"]),
    ("x", [r"\sqrt{x^2}", "|x|"]),
    ("p-q", ["q-p"]),
    ("x=5", ["y=5", "x=6", "x<5"]),
    ("5", ["2x=5", "5 = 6", "42 - 5"]),
    ("x^2+y^2=1", ["x^2+y^2=2", "y^2=1"]),
    (r"s^2 \le 8r^2", [r"s^2 \ge 8r^2", "s^2 < 8r^2"]),
    ("1, 2", ["1", "1, 2, 3", "1, 1", "(2,1)"]),
    ("1, 1, 2", ["1, 2"]),
    (r"\{1,2\}", ["(1,2)", r"\{1,3\}", "[1,2]"]),
    ("(1,2)", [r"\{1,2\}", "(2,1)", "[1,2]", "(1,2,3)", "2, 1"]),
    ("[2,5)", ["(2,5)", "[2,5]", "[2,6)"]),
    (r"(-\infty,3)\cup(3,\infty)", [r"(-\infty,\infty)", r"\mathbb{R}", r"x \ne 4"]),
    ("AB=9, CD=4", ["AB=4, CD=9"]),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", [r"\begin{pmatrix}1&2\end{pmatrix}", r"(2,1)"]),
    ("28_9", ["28_8", "26", "29_9"]),
    ("10,000", ["1,000", "10", "10, 0"]),
    ("8:34", ["8:43", r"\frac{4}{17}"]),
    (r"8:34\text{ p.m.}", ["8:34 a.m."]),
    (r"\text{east}", ["west", "5", "eastern"]),
    (r"\text{(C)}", ["(D)", "(C) or (D)", "C, D"]),
    ("LQSX", ["LQXS"]),
    (r"\text{A,B}", ["A", "A, C"]),
    ("5", ["5m", r"5 \text{ or } 6", "4, 5, 6", "(5, 5)", "5 = 6"]),
    (r"24\text{ km/h}", ["24 mph"]),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", [r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"]),
    ("F_n = \\sum_{k=0}^{n-1} F_k", ["F_n = \\sum_{k=0}^{n-2} F_k"]),
    ("0", ["", " ", "x"]),
]


@pytest.mark.parametrize(("gold", "answers"), EQUAL)
def test_math_accepts_every_way_to_say_the_same(gold, answers):
    for answer in [gold, *answers]:
        assert verify_math(f"So $\\boxed{{{answer}}}$.", gold) is Verdict.RIGHT, answer


@pytest.mark.parametrize(("gold", "answers"), DIFFERENT)
def test_math_refuses_what_says_something_else(gold, answers):
    for answer in answers:
        assert verify_math(f"So $\\boxed{{{answer}}}$.", gold) is Verdict.WRONG, answer


@pytest.mark.parametrize(
    "gold", [None, 7, "", "  ", "$$", r"\frac{1}{", "}{", r"\text{}", r"\unknown{3}", "9" * 3_000, r"\frac{1}{2", "\\"]
)
def test_math_calls_a_faulty_gold_unscorable_whatever_was_answered(gold):
    assert not is_scorable_gold(gold)
    assert verify_math(r"\boxed{7}", gold) is Verdict.UNSCORABLE
    assert verify_math("no box", gold) is Verdict.UNSCORABLE


def test_a_grade_says_what_was_read_and_why():
    grade = grade_math(r"\boxed{0.5}", r"\frac{1}{2}")
    assert (grade.verdict, grade.answer, grade.reason) == (Verdict.RIGHT, "0.5", "exact comparison")
    assert grade_math("nothing", "7").reason == "no box"


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^{9}}}",
        r"\frac{5^{(5^{(5^{(5^5)})} - 4)} - 5}{16}",
        "2^{30^{5}}",
        r"(10^{10})!",
        r"((((9!)!)!)!)!",
        r"\sum_{k=1}^{10^{12}} \frac{1}{k}",
        r"\prod_{k=1}^{10^7} \left(1+\frac{1}{k^2}\right)",
        r"\binom{10^9}{5 \cdot 10^8}",
        r"\sin(10^{10^{10}})",
        r"(x+y+z)^{10^6}",
        "+".join(["1"] * 900),
        r"\frac{1}{" * 150 + "3" + "}" * 150,
        "(" * 900 + "7" + ")" * 900,
        "-" * 1_500 + "7",
        "7" + "!" * 1_500,
        "7" * 1_900,
        "1/" * 900 + "7",
        "7" * 5_000,
    ],
)
def test_math_calls_an_answer_beyond_all_bounds_wrong(answer):
    for gold in ["8", "x^2+1", "(1,2)"]:
        assert verify_math(f"\\boxed{{{answer}}}", gold) is Verdict.WRONG


def test_math_gives_the_same_verdicts_from_eight_threads():
    asked = [(f"\\boxed{{\\sqrt{{{n}}} + \\pi^{{{n}}}}}", rf"\pi^{{{n % 7}}}+\sqrt{{{n % 7}}}") for n in range(300)]
    expected = [Verdict.RIGHT if n < 7 else Verdict.WRONG for n in range(300)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda pair: verify_math(*pair), asked * 2)) == expected * 2


@st.composite
def expressions(draw, depth: int = 3) -> tuple[str, Fraction]:
    """An expression in LaTeX and its rational value, computed here."""
    if depth == 0 or draw(st.booleans()):
        n, d = draw(st.integers(0, 30)), draw(st.integers(1, 9))
        return draw(
            st.sampled_from(
                [(str(n), Fraction(n)), (rf"\frac{{{n}}}{{{d}}}", Fraction(n, d)), (f"{n}.{d}", Fraction(f"{n}.{d}"))]
            )
        )
    (left, a), (right, b) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    kinds = [
        (f"({left}+{right})", a + b),
        (rf"\left({left}-{right}\right)", a - b),
        (rf"({left}) \cdot ({right})", a * b),
        (f"({left})^2", a**2),
        (rf"-({left})", -a),
    ]
    return draw(st.sampled_from(kinds + ([(rf"\frac{{{left}}}{{{right}}}", a / b)] if b else [])))


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_math_is_right_exactly_if_rational_values_are_equal(expression):
    latex, value = expression
    gold = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert verify_math(f"\\boxed{{{latex}}}", gold) is Verdict.RIGHT
    assert verify_math(f"\\boxed{{{latex} + 10^{{-30}}}}", gold) is Verdict.WRONG
    assert verify_math(f"\\boxed{{{latex}}}", f"{gold} - 1") is Verdict.WRONG


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_math_takes_lists_in_any_order_and_points_in_theirs(values, rng):
    shuffled = rng.sample(values, len(values))
    gold, answer = ", ".join(map(str, values)), ", ".join(map(str, shuffled))
    assert verify_math(f"\\boxed{{{answer}}}", gold) is Verdict.RIGHT
    in_order = Verdict.RIGHT if shuffled == values else Verdict.WRONG
    assert verify_math(f"\\boxed{{({answer})}}", f"({gold})") is in_order


def read_golds() -> list[str]:
    paths = [DATA / f"{name}.jsonl" for name in ("math_train", "math500", "aime24")]
    if not all(path.is_file() for path in paths):
        pytest.skip("the shared data sets are not beside this checkout")
    return sorted(
        {json.loads(line)["answer"] for path in paths for line in path.read_text(encoding="utf-8").splitlines()}
    )


def plain_value(gold: str) -> Fraction | None:
    """The independent rule: whole numbers, decimals and fractions of whole numbers by regular expressions alone."""
    if match := re.fullmatch(r"(-?)\\d?frac\{(-?\d+)\}\{(\d+)\}", gold):
        return Fraction(int(match[2]), int(match[3])) * (-1 if match[1] else 1)
    return Fraction(gold) if re.fullmatch(r"-?(\d+(\.\d+)?|\.\d+)", gold) else None


def test_math_confuses_no_golds_of_plain_numbers():
    plain = [(gold, value) for gold in read_golds() if (value := plain_value(gold)) is not None]
    rng, right = Random(0), 0
    pairs = [(rng.choice(plain), rng.choice(plain)) for _ in range(4_000)]
    pairs += [((a, x), (b, y)) for a, x in plain for b, y in plain if a < b and x == y]
    for (gold, value), (other, other_value) in pairs:
        expected = Verdict.RIGHT if value == other_value else Verdict.WRONG
        assert verify_math(f"\\boxed{{{other}}}", gold) is expected, (gold, other)
        right += value == other_value
    assert right >= 20


def test_math_confuses_no_golds_of_other_forms():
    """What is called equal among random pairs must have the same digits and letters but for signs of units."""
    others = [gold for gold in read_golds() if plain_value(gold) is None and not re.search(r"\\%|\\circ|_|:", gold)]

    def skeleton(gold: str) -> list[str]:
        bare = re.sub(
            r"\\(text|mbox|textnormal)\{[^}]*\}|\\(left|right|d?frac|tfrac|sqrt|begin|end|pmatrix)|pmatrix", "", gold
        )
        return sorted(re.findall(r"[A-Za-z0-9]", re.sub(r"^[a-z] ?= ?", "", bare)))

    rng = Random(1)
    for _ in range(4_000):
        gold, other = rng.sample(others, 2)
        if verify_math(f"\\boxed{{{other}}}", gold) is Verdict.RIGHT:
            assert skeleton(gold) == skeleton(other), (gold, other)
