from __future__ import annotations

import pytest

from sara.verifiers import Verdict, verify_math
from sara.verifiers.math.boxes import MAX_BOX_CHARS, final_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed {17}", "17"),
        (r"$\boxed 9$", "9"),
        (r"$\boxed -3.5$", "-3.5"),
        (r"\boxed \frac12", r"\frac12"),
        (r"$\boxed x$", "x"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a \\ b}", r"a \\ b"),
        (r"\boxed{x = \boxed{5}}", "x = {5}"),
        (r"\boxed{3}, no: \boxed{4}", "4"),
        (r"\boxed{840}., again \boxed{840}", "840"),
        (r"\boxed{7}. I used the \boxed command", "7"),
        (r"\boxed{7} and then \boxed{8", "7"),  # the last *closed* box
        (r"\boxed{7 \boxed{8}", "8"),
        (r"\boxed{\frac{3}{4}", None),
        (r"\boxed{}", ""),
        (r"boxed{5}", None),
        (r"\fbox{5}", None),
        ("the answer is 42", None),
        (r"<think>\boxed{6}</think> \boxed{8}", "8"),
        (r"<think>\boxed{6}</think> so 8", None),
        (r"<think>\boxed{6}", None),
        (r"\boxed{6}<think>", None),
        (r"a</think>b</think>\boxed{1}", "1"),
    ],
)
def test_the_answer_is_the_last_closed_box_after_the_reasoning(response, answer):
    assert final_answer(response) == answer


def test_the_answer_is_found_in_a_megabyte_of_text_and_behind_a_hundred_open_boxes_it_is_not():
    padding = "so we see that $x = {1}$ and " * 35_000
    assert len(padding) > 1_000_000
    assert final_answer(padding + r"\boxed{42}") == "42"
    assert final_answer(r"\boxed{42}" + padding) == "42"
    assert final_answer("{" * 1_000_000 + r"\boxed{42}" + "{" * 1_000_000) == "42"
    assert final_answer(r"\boxed{42}" + r"\boxed{" * 150_000) is None
    assert final_answer(r"\boxed{" + "1" * (MAX_BOX_CHARS + 1) + "}") is None


@pytest.mark.parametrize("response", [r"\boxed{" * 200_000, r"\boxed" * 200_000, "{" * 1_000_000, "<think>" * 150_000])
def test_math_calls_a_megabyte_of_noise_wrong(response):
    assert verify_math(response, "7") is Verdict.WRONG
