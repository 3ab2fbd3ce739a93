"""A set that was prepared once is taken from there, as long as nothing that decides it has changed."""

from __future__ import annotations

import json

import pytest

import sara.datasets
from sara.config import DataConfig
from sara.datasets import content_hash, load_apart, load_side
from sara.verifiers import Verdict

ROWS = [
    {"problem": "What is 1+1?", "answer": "2", "subject": "Sums", "level": 1},
    {"problem": "what is 1 + 1", "answer": "2"},
    {"problem": "What is 2+1?", "answer": "3"},
    {"problem": "Broken", "answer": "\\frac{1"},
]


@pytest.fixture
def readings(monkeypatch):
    """Which sides were read, and not taken from where they are kept."""
    seen, read = [], sara.datasets._read

    def counted(config, split, dataset):
        seen.append(split)
        return read(config, split, dataset)

    monkeypatch.setattr(sara.datasets, "_read", counted)
    return seen


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_set_is_prepared_once_and_is_the_same_from_then_on(tmp_path, readings):
    config = DataConfig(train="math", train_path=write(tmp_path / "a.jsonl"))
    without = load_side(config, "train")
    first, second = (load_side(config, "train", tmp_path / "kept") for _ in range(2))
    assert readings == ["train", "train"]  # without the folder, and once with it
    assert first == second == without
    assert first.summary() == second.summary() == without.summary()
    assert [problem.place for problem in second.problems] == [f"{tmp_path}/a.jsonl:1", f"{tmp_path}/a.jsonl:3"]
    assert content_hash(second.problems) == content_hash(without.problems)
    assert second.problems[0].verify(r"\boxed{2}") is Verdict.RIGHT
    assert (second.problems[0].subject, second.problems[0].level) == ("Sums", 1)


def test_a_set_is_prepared_anew_if_anything_that_decides_it_changes(tmp_path, readings, monkeypatch):
    kept, path = tmp_path / "kept", write(tmp_path / "a.jsonl")
    config = DataConfig(train="math", train_path=path)
    load_side(config, "train", kept)
    write(path, [*ROWS, {"problem": "What is 4+1?", "answer": "5"}])
    assert len(load_side(config, "train", kept).problems) == 3
    rows = [{"question": f"{i}+1", "problem": f"{i}+2", "answer": f"{i}"} for i in range(3)]
    other = DataConfig(train="math", train_path=write(tmp_path / "b.jsonl", rows))
    load_side(other, "train", kept)
    mapped = load_side(other.model_copy(update={"train_columns": {"problem": "question"}}), "train", kept)
    assert mapped.problems[0].text == "0+1"
    for seed in (0, 1):
        load_side(DataConfig(train="arithmetic", train_size=8, seed=seed), "train", kept)
    monkeypatch.setattr("sara.datasets.prepared.code_version", lambda: "another")
    load_side(config, "train", kept)
    assert len(readings) == 7


def test_what_does_not_decide_a_set_leaves_it_as_it_is(tmp_path, readings):
    kept, path = tmp_path / "kept", write(tmp_path / "a.jsonl")
    config = DataConfig(train="math", train_path=path, heldout="arithmetic")
    load_side(config, "train", kept)
    moved = write(tmp_path / "moved.jsonl")
    for change in ({"train_path": moved}, {"train_size": 1}, {"heldout": "math500"}, {"heldout_size": 3}):
        load_side(config.model_copy(update=change), "train", kept)
    assert readings == ["train"]
    assert len(load_side(config.model_copy(update={"train_size": 1}), "train", kept).problems) == 1


def test_a_kept_set_that_is_damaged_is_prepared_anew(tmp_path, readings, caplog):
    kept, config = tmp_path / "kept", DataConfig(train="math", train_path=write(tmp_path / "a.jsonl"))
    whole = load_side(config, "train", kept)
    for suffix, damage in ((".jsonl", lambda text: text.replace("2+1", "2+2")), (".json", lambda text: text[:-9])):
        (file,) = kept.glob(f"*{suffix}")
        file.write_text(damage(file.read_text()))
        caplog.clear()
        assert load_side(config, "train", kept) == whole
        assert "not what was written there; prepared anew" in caplog.text
    assert len(readings) == 3
    assert sorted(file.suffix for file in kept.iterdir()) == [".json", ".jsonl"]


def test_a_set_of_which_nothing_is_left_is_refused_each_time(tmp_path):
    config = DataConfig(train="math", train_path=write(tmp_path / "a.jsonl", ROWS[3:]))
    for _ in range(2):
        with pytest.raises(ValueError, match="no problem that can be scored is left"):
            load_side(config, "train", tmp_path / "kept")


def test_sets_to_keep_apart_from_are_kept_too(tmp_path, readings):
    path = write(tmp_path / "a.jsonl")
    config = DataConfig(
        train="math", train_path=path, apart_from={"math500": str(write(tmp_path / "b.jsonl", ROWS[:1]))}
    )
    sides = [load_apart(config, [], tmp_path / "kept") for _ in range(2)]
    assert [len(side.problems) for side in sides] == [1, 1]
    assert readings == ["train", "heldout"]
