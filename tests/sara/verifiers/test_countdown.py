from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.verifiers import Verdict, verify_countdown

CASES = Path(__file__).parents[4] / "shared" / "cases" / "countdown_cases.jsonl"


def answer(expression: str) -> str:
    return f"<answer>{expression}</answer>"


def test_countdown_agrees_with_every_shared_case():
    if not CASES.is_file():
        pytest.skip(f"the shared cases are not beside this checkout: {CASES.name} is missing")
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    assert len(cases) >= 70
    for case in cases:
        expected = Verdict.RIGHT if case["expected"] else Verdict.WRONG
        verdict = verify_countdown(case["response"], case["numbers"], case["target"])
        assert verdict is expected, f"{case['id']} ({case['kind']}): {case['response']!r}"


@pytest.mark.parametrize(
    ("expression", "numbers", "target"),
    [
        ("8/(3-8/3)", [3, 3, 8, 8], 24),  # 8 / (1/3) = 24: 8/3 stays exact
        ("(1/3)*3*7", [1, 3, 3, 7], 7),  # 1/3 * 3 is 1, not 0.999...
        ("-3+8", [3, 8], 5),
        ("-(3-8)", [3, 8], 5),
        ("--3+8", [3, 8], 11),
        ("8-+3", [3, 8], 5),
        ("2*-3+10", [2, 3, 10], 4),  # a sign binds tighter than *
        ("-5-5", [5, 5], -10),
        ("0*7", [0, 7], 0),
        ("0/7", [0, 7], 0),
        ("007+1", [7, 1], 8),
        ("((((44))))+(19)", [44, 19], 63),
        ("44\t+ 19", [44, 19], 63),
        ("100-50-25/5", [100, 50, 25, 5], 45),
        ("100/5/4", [100, 5, 4], 5),
        ("\n 44 + 19 \n", [44, 19], 63),
    ],
)
def test_countdown_computes_exactly_with_the_usual_precedence(expression, numbers, target):
    assert verify_countdown(answer(expression), numbers, target) is Verdict.RIGHT
    assert verify_countdown(answer(expression), numbers, target + 1) is Verdict.WRONG


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "()",
        "44 19",
        "44(19)",
        "(44)(19)",
        "44+",
        "+",
        "44+(19",
        "44+19)",
        "44//19",
        "44 × 19",
        "44−19",  # the minus of typography
        "٤٤+١٩",  # arabic-indic digits: int() and \d read them as 44 and 19
        "４４+１９",  # full-width digits
        "4 4+19",
        "44+19.0",
        "44.+19",
        "44+19;",
        "44+1\n9",
        "44+\n19",
        "44/(19-19)",
        "a+b",
        "44+19\x00",
        "44\u00a0+19",
    ],
)
def test_countdown_refuses_what_is_no_expression_of_plain_numbers(expression):
    assert verify_countdown(answer(expression), [44, 19], 63) is Verdict.WRONG


@pytest.mark.parametrize(
    "expression", ["44+19=63", "44 + 19 = 63.", "63=44+19", "44=44+19-19", "x=44+19", "44+19=", "=44+19"]
)
def test_countdown_calls_an_equation_wrong_whatever_its_sides(expression):
    assert verify_countdown(answer(expression), [44, 19], 63) is Verdict.WRONG


def test_countdown_reads_numbers_of_twelve_digits_and_calls_longer_ones_wrong():
    assert verify_countdown(answer("999999999999-1"), [999_999_999_999, 1], 999_999_999_998) is Verdict.RIGHT
    assert verify_countdown(answer("0" * 11 + "7"), [7], 7) is Verdict.RIGHT
    assert verify_countdown(answer("0" * 12 + "7"), [7], 7) is Verdict.WRONG
    assert verify_countdown(answer("9" * 13), [10**13 - 1], 10**13 - 1) is Verdict.WRONG


def test_countdown_follows_fifty_nested_brackets_and_calls_deeper_ones_wrong():
    def nested(depth: int) -> str:
        return answer("(" * depth + "44+19" + ")" * depth)

    assert verify_countdown(nested(49), [44, 19], 63) is Verdict.RIGHT
    assert verify_countdown(nested(60), [44, 19], 63) is Verdict.WRONG
    assert verify_countdown(answer("-" * 100 + "44+19"), [44, 19], 63) is Verdict.WRONG


@pytest.mark.parametrize(
    "response",
    [
        answer("(" * 100_000 + "44+19"),
        answer("-" * 100_000 + "44+19"),
        answer("9" * 100_000),
        answer("9*" * 50_000 + "9"),
        answer(" " * 100_000 + "+"),
        "<answer>" * 12_500,
        "</answer>" * 11_111,
        "<answer></answer>" * 6_000,
        "<think>" * 15_000,
        "</think>" * 12_500,
        "\ud800" * 100_000,
    ],
    ids=[
        "brackets",
        "signs",
        "digits",
        "products",
        "spaces",
        "open",
        "close",
        "pairs",
        "think",
        "unthink",
        "surrogate",
    ],
)
def test_countdown_calls_a_huge_response_wrong(response):
    assert verify_countdown(response, [44, 19], 63) is Verdict.WRONG


def test_countdown_finds_the_answer_behind_a_hundred_thousand_characters_of_reasoning():
    response = "44 + 19 = 63; " * 8_000 + "</think>" + answer("44+19")
    assert verify_countdown(response, [44, 19], 63) is Verdict.RIGHT


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("<think>" + answer("44+19"), Verdict.WRONG),  # the reasoning was cut off
        (answer("44+19") + "<think>", Verdict.WRONG),
        ("<think>x</think>" + answer("44+19") + "<think>again", Verdict.WRONG),
        (answer("44+19") + "</think>", Verdict.WRONG),  # only thought, not said
        ("<think>a</think><think>b</think>" + answer("44+19"), Verdict.RIGHT),
        ("44+19", Verdict.WRONG),
        ("<answer>44+19", Verdict.WRONG),
        ("44+19</answer>", Verdict.WRONG),
        ("</answer>44+19<answer>", Verdict.WRONG),
        (answer("44+19") + "<answer>44-19", Verdict.RIGHT),  # the last *closed* answer
        (answer("44+19") + "</answer>", Verdict.RIGHT),  # a stray closing tag changes nothing
        (answer("44+19") + " is my </answer>", Verdict.RIGHT),
        ("an <answer> such as " + answer("44+19"), Verdict.RIGHT),
        ("<ANSWER>44+19</ANSWER>", Verdict.WRONG),
        ("", Verdict.WRONG),
    ],
)
def test_countdown_reads_the_last_closed_answer_after_the_reasoning(response, verdict):
    assert verify_countdown(response, [44, 19], 63) is verdict


@pytest.mark.parametrize(
    ("numbers", "target"),
    [
        ([], 63),
        (None, 63),
        ([44, None], 63),
        ([44, 19], None),
        ([44, 19], 63.0),
        ([44, 19], "63"),
        (["44", "19"], 63),
        ("44", 63),
        ([True, 19], 20),
        ([44.0, 19], 63),
        ([-44, 19], 63),  # a minus is an operation: no answer could use -44
        (44, 63),
    ],
)
def test_countdown_calls_a_faulty_reference_unscorable_never_wrong(numbers, target):
    assert verify_countdown(answer("44+19"), numbers, target) is Verdict.UNSCORABLE
    assert verify_countdown("no answer", numbers, target) is Verdict.UNSCORABLE


def test_countdown_takes_numpy_integers_as_integers():
    assert verify_countdown(answer("44+19"), np.array([44, 19]), np.int64(63)) is Verdict.RIGHT
    assert verify_countdown(answer("44+19"), (44, 19), 64) is Verdict.WRONG


tag_soup = st.lists(
    st.one_of(
        st.sampled_from(
            ["<think>", "</think>", "<answer>", "</answer>", "44", "19", "+", "-", "*", "/", "(", ")", " "]
        ),
        st.text(max_size=5),
    )
).map("".join)


@given(st.one_of(st.text(), tag_soup, tag_soup.map(answer)))
def test_countdown_gives_a_verdict_for_any_text(response):
    assert verify_countdown(response, [44, 19, 35], 98) in (Verdict.RIGHT, Verdict.WRONG)


@st.composite
def expressions(draw) -> tuple[str, list[int], Fraction]:
    """A random expression over fresh numbers, its numbers, and its value (computed here, not by the verifier)."""
    terms = [(str(n), [n], Fraction(n)) for n in draw(st.lists(st.integers(0, 99), min_size=1, max_size=6))]
    while len(terms) > 1:
        right, left = terms.pop(), terms.pop(draw(st.integers(0, len(terms) - 1)))
        operation = draw(st.sampled_from("+-*/"))
        if operation == "/" and right[2] == 0:
            operation = "+"
        value = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
        }[operation](left[2], right[2])
        terms.append((f"({left[0]} {operation} {right[0]})", left[1] + right[1], value))
    return terms[0]


@given(expressions(), st.randoms(use_true_random=False))
def test_countdown_is_right_exactly_if_value_and_numbers_match(expression, rng):
    shown, numbers, value = expression
    numbers = rng.sample(numbers, len(numbers))  # the order in which they are offered does not matter
    if value.denominator > 1:
        assert verify_countdown(answer(shown), numbers, round(value)) is Verdict.WRONG
        return
    target = int(value)
    assert verify_countdown(answer(shown), numbers, target) is Verdict.RIGHT
    assert verify_countdown(answer(shown), numbers, target + 1) is Verdict.WRONG
    changed = [*numbers]
    changed[rng.randrange(len(numbers))] += 1
    assert verify_countdown(answer(shown), changed, target) is Verdict.WRONG
    assert verify_countdown(answer(shown), [*numbers, 1], target) is Verdict.WRONG
    assert verify_countdown(answer(shown + " + 0"), numbers, target) is Verdict.WRONG


def test_countdown_gives_the_same_verdicts_from_eight_threads():
    responses = [answer(f"{a}+{b}") for a in range(40) for b in range(40)] * 2
    expected = [Verdict.RIGHT if "19" in r and "25" in r else Verdict.WRONG for r in responses]
    assert expected.count(Verdict.RIGHT) == 4
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda response: verify_countdown(response, [19, 25], 44), responses))
    assert verdicts == expected
