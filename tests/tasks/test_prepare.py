"""Preparing the data: runs under one folder share what was prepared, and each records what it saw."""

from __future__ import annotations

import json

import pytest

import sara.datasets
from sara.config import DataConfig, RunConfig
from tasks.prepare import PREPARED, prepare_data


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.prepare.require_store", lambda tracking: None)  # nothing is recorded here
    rows = [{"numbers": [i, i + 1, 2], "target": 2 * i + 3} for i in range(1, 9)]
    for name, part in (("train", rows[:5]), ("heldout", rows[5:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    data = DataConfig(train_path=tmp_path / "train.jsonl", heldout_path=tmp_path / "heldout.jsonl")
    return RunConfig(
        data=data,
        output_dir=tmp_path / "outputs",
        allocation={"groups_per_step": 4},
    )


def test_a_second_run_takes_what_the_first_prepared_and_records_the_same_hash(config, tmp_path, monkeypatch):
    first = prepare_data.fn(config, tmp_path / "outputs" / "first")
    monkeypatch.setattr(sara.datasets, "_read", None)  # nothing is read again
    second = prepare_data.fn(config, tmp_path / "outputs" / "second")
    for side in ("train", "heldout"):
        one, other = getattr(first, side), getattr(second, side)
        assert one.content_hash == other.content_hash and one.left_out == other.left_out
        assert one.path != other.path and one.path.read_text() == other.path.read_text()
    kept = sorted(path.name for path in (config.output_dir / PREPARED).iterdir())
    assert [name.partition(".")[2] for name in kept] == ["json", "jsonl", "json", "jsonl"]
    cards = [json.loads(path.read_text())["content_hash"] for path in (config.output_dir / PREPARED).glob("*.json")]
    assert set(cards) == {first.train.content_hash, first.heldout.content_hash}
