"""Sets of very many members are decided without comparing each with each."""

from __future__ import annotations

import pytest

from sara.verifiers import Verdict, verify_math
from sara.verifiers.math import comparison


def a_set(count: int) -> str:
    return r"\{" + ",".join(f"x+{i}" for i in range(count)) + r"\}"


@pytest.mark.parametrize("gold", ["1", r"\{1,2,3\}", "x^2+1", r"\sqrt2"])
def test_a_set_of_hundreds_of_formulas_takes_hardly_a_comparison(monkeypatch, gold):
    calls = []
    original = comparison.compare

    def counted(*arguments):
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(comparison, "compare", counted)
    assert verify_math(rf"\boxed{{{a_set(300)}}}", gold) is Verdict.WRONG
    assert len(calls) < 1000  # each with each would be 44,850


def test_members_of_a_small_set_that_are_equal_count_once():
    assert verify_math(r"\boxed{\{1, 2/2, 2\}}", r"\{1,2\}") is Verdict.RIGHT


@pytest.mark.parametrize("power", [100, 200, 240])
def test_a_difference_far_below_the_digits_of_a_float_is_one(power):
    assert verify_math(rf"\boxed{{\sqrt2+10^{{-{power}}}}}", r"\sqrt2") is Verdict.WRONG


@pytest.mark.parametrize(("answer", "gold"), [(r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"), (r"\sqrt{\sqrt2-\sqrt2}", "0")])
def test_equal_roots_stay_equal_in_all_digits(answer, gold):
    assert verify_math(rf"\boxed{{{answer}}}", gold) is Verdict.RIGHT
