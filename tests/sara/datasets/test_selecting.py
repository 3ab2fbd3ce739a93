"""What is left out of a set, and that nothing is left out uncounted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.datasets.base import Problem, normalised_text
from sara.datasets.selecting import Side, apart_from, choose, without_duplicates, without_faulty


def problem(problem_id: str, text: str) -> Problem:
    return Problem(problem_id, text, {}, lambda response: None)


def ids(side: Side) -> list[str]:
    return [problem.id for problem in side.problems]


def test_only_the_first_of_those_that_ask_the_same_is_kept_and_the_others_are_counted():
    side = without_duplicates(
        [problem("a", "What is $1+1$?"), problem("b", "2?"), problem("c", "what is 1 + 1")], "here"
    )
    assert ids(side) == ["a", "b"]
    assert side.counts() == {"duplicate": 1, "faulty": 0, "shared": 0, "long": 0}
    assert side.summary() == "left out: 1 asked before in the same set (c: as a)"


def test_one_id_for_two_problems_is_refused_by_name():
    with pytest.raises(ValueError, match=r"data\.train: two problems have the id a; expected an id for each"):
        without_duplicates([problem("a", "1"), problem("a", "2")], "data.train")


def test_training_problems_that_are_held_out_too_are_left_out_whatever_their_ids():
    train = without_duplicates([problem("t1", "Find $x$."), problem("t2", "Find y.")], "train")
    side = apart_from(train, [problem("h1", "find  x")])
    assert ids(side) == ["t2"]
    assert side.counts()["shared"] == 1
    assert "1 also in an evaluation set (t1: as h1)" in side.summary()


def test_the_reasons_add_up_to_everything_that_was_read():
    read = [problem(f"p{i}", f"text {i % 7}") for i in range(20)]
    side = without_faulty(without_duplicates(read, "here"), lambda p: "no answer" if p.text == "text 3" else None)
    side = apart_from(side, [problem("h", "Text 5")])
    assert len(side.problems) + sum(side.counts().values()) == 20
    assert side.counts() == {"duplicate": 13, "faulty": 1, "shared": 1, "long": 0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Find $x$.", "find x"),
        (r"What is $\dfrac{1}{2}$?", r"What is $\frac{1}{2}$?"),
        (r"Let \[f(x) = 2\] be", "Let $f(x)=2$ be"),
        (r"$\left(1,\,2\right)$", "$(1, 2)$"),
        (r"$3\cdot 4$", r"$3 \times 4$"),
        ("Is it ﬁne?", "Is it fine?"),
    ],
)
def test_typesetting_makes_no_other_problem(one, other):
    assert normalised_text(one) == normalised_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 12?", "What is 21?"),
        ("Find $x^2$.", "Find $x_2$."),
        ("1 + 1", "1 - 1"),
        ("$-3$", "$3$"),
        ("0.5", "05"),
    ],
)
def test_what_changes_the_question_is_another_problem(one, other):
    assert normalised_text(one) != normalised_text(other)


@given(st.text(max_size=80))
def test_space_in_front_makes_no_other_problem(text):
    once = normalised_text(text)
    assert normalised_text("\n" + text) == once


def test_a_choice_is_seeded_in_order_and_at_most_as_large():
    side = Side([problem(str(i), str(i)) for i in range(50)])
    chosen = choose(side, 10, "a")
    assert len(chosen.problems) == 10
    assert ids(chosen) == sorted(ids(chosen), key=int)
    assert ids(chosen) == ids(choose(side, 10, "a")) != ids(choose(side, 10, "b"))
    assert choose(side, 50, "a") == choose(side, None, "a") == choose(side, 99, "a") == side
