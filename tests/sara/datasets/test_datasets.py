from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sara.config import CompareConfig, DataConfig
from sara.config_file import load_config
from sara.datasets import content_hash, load_apart, load_prepared, load_problems, load_side, write_problems
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


def test_a_repeated_problem_is_used_once_and_counted(tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text('{"numbers": [3, 5], "target": 8}\n' * 2 + '{"numbers": [5, 3], "target": 8}\n')
    side = load_side(SMALL.model_copy(update={"train_path": path}), "train")
    assert [problem.id for problem in side.problems] == ["countdown/3-5=8"]
    assert side.counts()["duplicate"] == 2


def test_training_problems_that_are_held_out_too_are_left_out(tmp_path):
    train, heldout = tmp_path / "train.jsonl", tmp_path / "heldout.jsonl"
    train.write_text('{"numbers": [3, 5], "target": 8}\n{"numbers": [3, 5], "target": 15}\n')
    heldout.write_text('{"numbers": [5, 3], "target": 8, "id": "another"}\n')
    config = SMALL.model_copy(update={"train_path": train, "heldout_path": heldout})
    assert [[p.id for p in side] for side in load_problems(config)] == [["countdown/3-5=15"], ["another"]]


def test_training_problems_of_further_evaluation_sets_are_left_out_too(tmp_path):
    files = {}
    for name, targets in (("train", (8, 15, 2)), ("heldout", (8,)), ("other", (15,))):
        files[name] = tmp_path / f"{name}.jsonl"
        files[name].write_text("".join(f'{{"numbers": [3, 5], "target": {target}}}\n' for target in targets))
    paths = {"train_path": files["train"], "heldout_path": files["heldout"]}
    config = DataConfig(**paths, apart_from={"countdown34": str(files["other"])})
    train, heldout = load_problems(config)
    assert [problem.reference["target"] for problem in train] == [2]
    assert [problem.reference["target"] for problem in heldout] == [8]
    assert load_apart(config, heldout).counts()["shared"] == 2
    with pytest.raises(ValueError, match="did you mean 'aime24'"):
        DataConfig(apart_from={"aime": "hub"})


def test_the_demos_problems_never_change():
    """Runs are compared across versions: what `configs/demo.toml` trains on is part of the contract."""
    demo = load_config(CompareConfig, Path(__file__).parents[3] / "configs" / "demo.toml")
    hashes = [content_hash(side)[:16] for side in load_problems(demo.data)]
    assert hashes == ["3e097a27fa77427a", "09f5cd250c245ef9"]


def test_as_many_as_asked_for_are_used_of_a_set_that_is_read(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"numbers": [3, {n}], "target": {n + 3}}}\n' for n in range(40)))
    config = DataConfig(train_path=path, train_size=10)
    chosen = [problem.id for problem in load_side(config, "train").problems]
    every = [problem.id for problem in load_side(DataConfig(train_path=path), "train").problems]
    assert len(chosen) == 10 and len(every) == 40
    assert chosen == [problem_id for problem_id in every if problem_id in set(chosen)] != every[:10]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("aime25", "data set 'aime25' is unknown; did you mean 'aime24'?"),
        ("Math", "did you mean 'math'?"),
        ("xyz", "expected one of aime24, arithmetic, countdown, countdown34, math, math500"),
    ],
)
def test_an_unknown_set_is_refused_with_the_nearest_name(name, line):
    with pytest.raises(ValueError, match=re.escape(line)):
        DataConfig(train=name)


def test_a_column_of_no_field_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"numbers": [3, 5], "target": 8}\n')
    config = DataConfig(train_path=path, train_columns={"goal": "target"})
    with pytest.raises(ValueError, match=r"data\.train_columns: 'goal' is no field .* are numbers, target, id"):
        load_side(config, "train")


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
    side = load_side(DataConfig(train="countdown34", train_path=path), "train")
    train = side.problems
    assert len(train) + side.counts()["duplicate"] == 10240
    assert side.counts()["duplicate"] == 22
    assert (train[0].id, train[0].reference) == ("countdown34/00000", {"numbers": [44, 19, 35], "target": 98})
    assert train[0].verify("<answer>44+19+35</answer>") is Verdict.RIGHT
    assert {len(problem.reference["numbers"]) for problem in train} == {3, 4}
