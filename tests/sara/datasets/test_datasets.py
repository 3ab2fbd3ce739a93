from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sara.config import DataConfig
from sara.datasets import content_hash, load_prepared, load_problems, write_problems
from sara.datasets.countdown import countdown_problem
from sara.verifiers import Verdict

SMALL = DataConfig(train_size=30, heldout_size=12, sizes={2: 1.0, 3: 2.0})


def test_the_settings_decide_the_problems():
    train, heldout = load_problems(SMALL)
    assert (len(train), len(heldout)) == (30, 12)
    assert sum(len(problem.reference["numbers"]) == 2 for problem in train) == 10
    assert load_problems(SMALL) == (train, heldout)
    other, _ = load_problems(SMALL.model_copy(update={"seed": 1}))
    assert other != train


def test_a_data_file_takes_the_place_of_one_side_only(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"numbers": [44, 19, 35], "target": 98}\n')
    train, heldout = load_problems(SMALL.model_copy(update={"train_path": path}))
    assert [problem.id for problem in train] == ["countdown/44-19-35=98"]
    assert heldout == load_problems(SMALL)[1]


def test_written_problems_read_back_equal_and_judge_alike(tmp_path):
    train, heldout = load_problems(SMALL)
    paths = tmp_path / "deep" / "train.jsonl", tmp_path / "deep" / "heldout.jsonl"
    for problems, path in zip((train, heldout), paths, strict=True):
        write_problems(problems, path)
    again = tuple(load_prepared(SMALL, side, path) for side, path in zip(("train", "heldout"), paths, strict=True))
    assert again == (train, heldout)
    assert [content_hash(side) for side in again] == [content_hash(train), content_hash(heldout)]
    assert again[0][0].verify("<answer>1</answer>") is Verdict.WRONG


def test_written_problems_say_what_they_are(tmp_path):
    write_problems([countdown_problem([3, 5], 8, "é1")], tmp_path / "one.jsonl")
    row = json.loads((tmp_path / "one.jsonl").read_text(encoding="utf-8"))
    assert row == {"id": "é1", "text": countdown_problem([3, 5], 8).text, "numbers": [3, 5], "target": 8}


def test_a_repeated_id_is_refused_by_name(tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text('{"numbers": [3, 5], "target": 8}\n' * 2)
    with pytest.raises(ValueError, match=r"data\.train: problem countdown/3-5=8 stands in it more than once"):
        load_problems(SMALL.model_copy(update={"train_path": path}))
    with pytest.raises(ValueError, match=r"data\.heldout: "):
        load_problems(SMALL.model_copy(update={"heldout_path": path}))


def test_the_content_hash_changes_with_anything_that_changes():
    problems = [countdown_problem([3, 5], 8), countdown_problem([3, 5, 7], 22)]
    variants = [
        problems,
        problems[::-1],
        problems[:1],
        [*problems, problems[0]],
        [replace(problems[0], id="other"), problems[1]],
        [replace(problems[0], text="other"), problems[1]],
        [replace(problems[0], reference={"numbers": [5, 3], "target": 8}), problems[1]],
        [replace(problems[0], reference={"numbers": [3, 5], "target": 9}), problems[1]],
        [],
    ]
    hashes = [content_hash(variant) for variant in variants]
    assert len(set(hashes)) == len(variants)
    assert content_hash(list(problems)) == hashes[0]
    assert all(len(value) == 64 for value in hashes)


def test_the_content_hash_does_not_depend_on_the_order_of_a_references_keys():
    problem = countdown_problem([3, 5], 8)
    turned = replace(problem, reference=dict(reversed(problem.reference.items())))
    assert list(turned.reference) != list(problem.reference)
    assert content_hash([turned]) == content_hash([problem])


def test_the_published_countdown_problems_are_read_whole():
    path = Path(__file__).parents[4] / "shared" / "data" / "countdown_first10240.jsonl"
    if not path.is_file():
        pytest.skip(f"the published problems are not beside this checkout: {path.name} is missing")
    train, _ = load_problems(SMALL.model_copy(update={"train_path": path}))
    assert len(train) == 10240
    assert (train[0].id, train[0].reference) == ("countdown34/00000", {"numbers": [44, 19, 35], "target": 98})
    assert train[0].verify("<answer>44+19+35</answer>") is Verdict.RIGHT
    assert {len(problem.reference["numbers"]) for problem in train} == {3, 4}
