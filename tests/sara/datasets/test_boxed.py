"""Rows of problems with boxed answers: what is read of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sara.config import DataConfig
from sara.datasets import content_hash, load_prepared, load_side, write_problems
from sara.datasets.boxed import read_boxed, reference_fault
from sara.verifiers import Verdict

SHARED = Path(__file__).parents[4] / "shared" / "data"


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_becomes_a_problem_that_judges_by_its_answer():
    problem = read_boxed(
        {"problem": " What is $1+1$? ", "answer": "2", "subject": "Algebra", "level": "Level 3"}, "x:1"
    )
    assert (problem.text, problem.subject, problem.level) == ("What is $1+1$?", "Algebra", 3)
    assert problem.verify(r"\boxed{2}") is Verdict.RIGHT and problem.verify(r"\boxed{3}") is Verdict.WRONG
    assert problem.answer(r"It is \boxed{ 3 }") == "3" and problem.answer("3") is None


def test_without_an_answer_the_solutions_last_box_is_it():
    problem = read_boxed({"problem": "?", "solution": r"\boxed{1}, no: \boxed{\frac{1}{2}}"}, "x:1")
    assert problem.reference["answer"] == r"\frac{1}{2}"


@pytest.mark.parametrize(
    ("value", "level"), [(5, 5), ("5", 5), ("Level 5", 5), ("Level ?", None), (None, None), ("", None)]
)
def test_a_level_is_read_from_a_number_or_a_text(value, level):
    assert read_boxed({"problem": "?", "answer": "1", "level": value}, "x:1").level == level


def test_a_problem_without_an_id_has_that_of_its_text_and_numbers_become_texts():
    one, other = (read_boxed({"problem": text, "answer": 204}, "x:1") for text in ("a", "b"))
    assert one.id != other.id and one.id == read_boxed({"problem": "a", "answer": 1}, "y:7").id
    assert read_boxed({"problem": "a", "answer": 204, "id": 60}, "x:1").id == "60"
    assert one.reference == {"answer": "204"} and one.verify(r"\boxed{204}") is Verdict.RIGHT


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"problem": "", "answer": "1"}, "x:1: problem = ''; expected a text that is not empty"),
        ({"problem": 7, "answer": "1"}, "x:1: problem = 7; expected a text"),
        ({"problem": "a", "answer": ["1"]}, "x:1: answer = ['1']; expected a text or a number"),
        ({"problem": "a", "answer": True}, "x:1: answer = True; expected"),
        ({"problem": "a", "answer": "1", "level": "hard"}, "x:1: level = 'hard'; expected a number"),
    ],
)
def test_a_faulty_row_is_named_with_its_place(row, line):
    with pytest.raises(ValueError) as caught:
        read_boxed(row, "x:1")
    assert str(caught.value).startswith(line)


def test_problems_without_an_answer_are_left_out_and_reported(tmp_path):
    rows = [{"id": f"p{i}", "problem": f"text {i}", "answer": answer} for i, answer in enumerate(["1", None, "", "  "])]
    side = load_side(DataConfig(train="math", train_path=write(tmp_path / "a.jsonl", *rows)), "train")
    assert [problem.id for problem in side.problems] == ["p0"]
    assert side.counts()["faulty"] == 3
    assert f"3 without an answer that can be scored against ({tmp_path}/a.jsonl:2: no answer, ...)" in side.summary()
    with pytest.raises(ValueError, match=r"data\.train: no problem that can be scored is left; left out: 3 without"):
        load_side(DataConfig(train="math", train_path=write(tmp_path / "b.jsonl", *rows[1:])), "train")


def test_an_unscorable_problem_never_gives_a_zero():
    problem = read_boxed({"problem": "a", "answer": None, "solution": "no box"}, "x:1")
    assert problem.verify(r"\boxed{1}") is Verdict.UNSCORABLE
    assert reference_fault(problem) == "no answer"


def test_written_problems_read_back_equal_and_judge_alike(tmp_path):
    rows = [
        {"id": "a", "problem": "1+1", "answer": "2", "subject": "Algebra", "level": 1},
        {"id": "b", "problem": "1+2", "solution": r"\boxed{3}"},
    ]
    config = DataConfig(train="math", train_path=write(tmp_path / "a.jsonl", *rows))
    side = load_side(config, "train")
    write_problems(side.problems, tmp_path / "prepared.jsonl")
    again = load_prepared(config, "train", tmp_path / "prepared.jsonl")
    assert again == side.problems and content_hash(again) == content_hash(side.problems)
    assert again[1].verify(r"\boxed{3}") is Verdict.RIGHT


def test_columns_of_another_name_are_mapped(tmp_path):
    path = write(tmp_path / "a.jsonl", {"prompt_text": "1+1", "label": "2"})
    columns = {"problem": "prompt_text", "answer": "label"}
    (problem,) = load_side(DataConfig(train="math", train_path=path, train_columns=columns), "train").problems
    assert problem.reference["answer"] == "2"


def published(name: str) -> Path:
    path = SHARED / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"the published problems are not beside this checkout: {path.name} is missing")
    return path


@pytest.mark.parametrize(
    ("name", "file", "size", "subjects"),
    [("math", "math_train", 7490, 7), ("math500", "math500", 500, 7), ("aime24", "aime24", 30, 0)],
)
def test_every_published_problem_can_be_scored_and_its_answer_is_right(name, file, size, subjects):
    side = load_side(DataConfig(train=name, train_path=published(file)), "train")
    assert len(side.problems) == size and side.counts()["faulty"] == 0
    assert len({problem.subject for problem in side.problems} - {None}) == subjects
    for problem in side.problems[:: max(1, size // 100)]:
        assert problem.verify(rf"\boxed{{{problem.reference['answer']}}}") is Verdict.RIGHT, problem.id


def test_the_published_training_problems_are_apart_from_those_for_evaluation():
    train = {
        p.content for p in load_side(DataConfig(train="math", train_path=published("math_train")), "train").problems
    }
    for name in ("math500", "aime24"):
        heldout = load_side(DataConfig(heldout=name, heldout_path=published(name)), "heldout").problems
        assert train.isdisjoint(problem.content for problem in heldout)
