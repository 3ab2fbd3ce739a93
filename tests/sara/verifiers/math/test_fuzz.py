"""Any text gets a verdict: no exception, nothing run, whatever stands in the box and in the gold."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sara.verifiers import Verdict, verify_math

GOLDS = [
    r"\frac{1}{2}",
    "7",
    r"x^2+1",
    r"(1, 2)",
    r"\{1, 2\}",
    r"[2,5)",
    "x = 5",
    r"28_9",
    r"\text{east}",
    r"1 \pm \sqrt{2}",
]
PIECES = [
    r"\frac", r"\sqrt", r"\binom", r"\overline", r"\text", r"\mathrm", r"\left", r"\right", r"\boxed",
    r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", "&", r"\infty", r"\pi", r"\pm", r"\mp", r"\cup", r"\cap",
    r"\setminus", r"\in", r"\le", r"\ne", r"\{", r"\}", "{", "}", "(", ")", "[", "]", "|", "^", "_", "!", "%",
    "^\\circ", ",", ";", ":", "=", "<", ">", "+", "-", "*", "/", ".", "0", "1", "9", "12", "345", "x", "y", "e", "i",
    "sin", r"\sin", r"\log", r"\ln", r"\exp", r"\tan", r"\arcsin", r"\lfloor", r"\rfloor", r"\cdot", r"\times",
    r"\$", "$", r"\,", r"\!", "~", " ", "\n", " and ", r"\text{ or }", "cm", r"\mid", r"\langle", r"\rangle",
    r"\max", r"\gcd", r"\ldots", "_{2}", "99999999", "1e9", "√", "½", "²", "∞", "−", "≤", "\0", "\u202e", "\ud800",
    "９", "٣", "\u0305", "<think>", "</think>", "__import__('os')", "lambda:0",
]  # fmt: skip

answers = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=15).map("".join),
    st.builds(lambda piece, count: piece * count, st.sampled_from(PIECES), st.integers(1, 1000)),
    st.builds(
        lambda opening, inner, closing, count: opening * count + inner + closing * count,
        st.sampled_from(["(", "{", r"\frac{1}{", r"\sqrt{", "|", r"\{", "[", "x^{", r"\lfloor ", "-(", r"\sin("]),
        st.sampled_from(PIECES),
        st.sampled_from([")", "}", "|", r"\}", "]", r"\rfloor "]),
        st.integers(1, 200),
    ),
)


@settings(max_examples=6_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(answers, st.sampled_from(GOLDS))
def test_math_gives_a_verdict_for_any_answer(answer, gold):
    assert verify_math(f"\\boxed{{{answer}}}", gold) in Verdict


@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(answers, answers)
def test_math_gives_a_verdict_for_any_gold(answer, gold):
    assert verify_math(f"\\boxed{{{answer}}}", gold) in Verdict


@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(answers, st.sampled_from([r"\boxed{", r"\boxed ", r"\boxed", "}"])), max_size=8).map("".join))
def test_math_gives_a_verdict_for_any_response(response):
    assert verify_math(response, "7") in Verdict


def test_math_runs_nothing_that_an_answer_says(tmp_path):
    target = tmp_path / "was_run"
    for code in [
        f"__import__('pathlib').Path('{target}').touch()",
        f"open('{target}','w')",
        f"\\input{{|touch {target}}}",
    ]:
        for answer in [code, f"{code} or 2", f"\\text{{{code}}}", f"\\sum_{{k=1}}^{{2}} {code}"]:
            assert verify_math(f"\\boxed{{{answer}}}", r"2\pi") is Verdict.WRONG
    assert not Path(target).exists()
