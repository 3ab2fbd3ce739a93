"""Rows of files and of the hub: columns, places, and one clear line for what cannot be read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from sara.config import DataConfig
from sara.datasets import DATASETS, load_side, rows
from sara.datasets.base import Field
from sara.datasets.rows import read_file

FIELDS = {
    "question": Field(("question", "problem")),
    "answer": Field(("answer",)),
    "level": Field(("level",), is_required=False),
}


def write_jsonl(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read(path, **columns):
    return [row for _, row in read_file(path, FIELDS, columns)]


def test_a_field_is_found_under_any_of_its_columns_and_others_are_left_out(tmp_path):
    path = write_jsonl(
        tmp_path / "a.jsonl", {"problem": "1+1", "answer": "2", "url": "x"}, {"question": "2", "answer": 3}
    )
    assert read(path) == [{"question": "1+1", "answer": "2"}, {"question": "2", "answer": 3}]


def test_a_mapped_column_wins_over_one_of_the_usual_name(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", {"question": "1+1", "answer": "no", "gold": "2", "level": 3})
    assert read(path, answer="gold") == [{"question": "1+1", "answer": "2", "level": 3}]


def test_parquet_and_jsonl_give_the_same_rows(tmp_path):
    records = [{"question": f"{i}", "answer": str(i), "level": i % 5} for i in range(5000)]
    parquet.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == read(write_jsonl(tmp_path / "a.jsonl", *records)) == records


def test_places_name_the_line_or_the_row(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "1", "answer": "1"}\n\n{"question": "2", "answer": "2"}\n')
    assert [place for place, _ in read_file(path, FIELDS, {})] == [f"{path}:1", f"{path}:3"]
    table = pa.Table.from_pylist([{"question": "1", "answer": "1"}] * 4098)
    parquet.write_table(table, tmp_path / "a.parquet")
    places = [place for place, _ in read_file(tmp_path / "a.parquet", FIELDS, {})]
    assert places[0] == f"{tmp_path}/a.parquet[0]" and places[-1] == f"{tmp_path}/a.parquet[4097]"


@pytest.mark.parametrize(
    ("record", "columns", "line"),
    [
        (
            {"question": "1", "gold": "1", "topic": "x"},
            {},
            "no column answer; the columns there are: question, gold, topic; map it with a setting such as",
        ),
        (
            {"question": "1", "answer": "1"},
            {"answer": "gold"},
            "no column gold; the columns there are: question, answer",
        ),
        (
            {"question": "1", "answer": "1"},
            {"level": "hard"},
            "no column hard; the columns there are: question, answer",
        ),
        ({"answer": "1"}, {}, "no column question or problem; the columns there are: answer"),
        ({}, {}, "no column question or problem; the columns there are: none"),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path, record, columns, line):
    path = write_jsonl(tmp_path / "a.jsonl", record)
    with pytest.raises(ValueError) as caught:
        read(path, **columns)
    assert str(caught.value).startswith(f"{path}:1: {line}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_parquet_is_refused_in_one_line(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: no Parquet file that can be read"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl.gz", "a"])
def test_a_file_of_another_kind_is_refused_by_its_name(tmp_path, name):
    (tmp_path / name).write_text("question,answer\n1,2\n")
    line = f"{tmp_path / name}: cannot be read; expected JSONL, one object a line, or Parquet (.jsonl, .json, .parquet)"
    with pytest.raises(ValueError) as caught:
        read(tmp_path / name)
    assert str(caught.value) == line


def test_problems_of_a_file_that_are_left_out_are_named_by_their_lines(tmp_path):
    texts = ["1+1?", "2+1?", "1 + 1?", "broken"]
    records = [{"problem": text, "answer": "2" if text != "broken" else "\\frac{1"} for text in texts]
    path = write_jsonl(tmp_path / "a.jsonl", *records)
    side = load_side(DataConfig(train="math", train_path=path), "train")
    assert side.summary() == (
        f"left out: 1 asked before in the same set ({path}:3: as {path}:1); "
        f"1 without an answer that can be scored against ({path}:4: an answer that cannot be read: '\\\\frac{{1')"
    )


def test_one_id_for_two_problems_of_a_file_is_refused_by_their_lines(tmp_path):
    rows_of_one_id = [{"id": "a", "problem": text, "answer": "2"} for text in ("1+1", "0+2")]
    path = write_jsonl(tmp_path / "a.jsonl", *rows_of_one_id)
    with pytest.raises(ValueError) as caught:
        load_side(DataConfig(train="math", train_path=path), "train")
    assert str(caught.value) == (
        f"data.train: two problems have the id a ({path}:1 and {path}:2); expected an id for each"
    )


def test_an_empty_parquet_file_is_refused(tmp_path):
    parquet.write_table(pa.table({"question": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: the data file is empty"):
        read(tmp_path / "a.parquet")


class Hub:
    """Stands at the boundary to the hub: what was asked for, and rows to answer with."""

    def __init__(self, monkeypatch, *records):
        self.asked = []
        self.records = records
        monkeypatch.setattr(rows, "load_from_hub", self)

    def __call__(self, name, revision, split, setting):
        self.asked.append((name, revision, split, setting))
        return list(self.records)


def test_a_public_set_is_read_at_its_pinned_revision_from_its_split(monkeypatch):
    hub = Hub(monkeypatch, {"problem": "1+1", "level": "Level 2", "type": "Algebra", "solution": r"So \boxed{2}."})
    (train,) = load_side(DataConfig(train="math"), "train").problems
    (heldout,) = load_side(DataConfig(heldout="math", heldout_revision="main"), "heldout").problems
    source = DATASETS["math"].hub
    assert hub.asked == [
        (source.name, source.revision, "train", "data.train_path"),
        (source.name, "main", "test", "data.heldout_path"),
    ]
    assert (train.reference["answer"], train.level, train.subject) == ("2", 2, "Algebra")
    assert heldout == train


def test_every_public_set_names_a_commit_and_not_a_branch():
    hubs = [dataset.hub for dataset in DATASETS.values() if dataset.hub is not None]
    assert len(hubs) >= 4
    for hub in hubs:
        assert len(hub.revision) == 40 and int(hub.revision, 16) > 0
        assert set(hub.splits) == {"train", "heldout"}


def test_the_rows_of_the_public_countdown_set_are_split_by_what_they_ask(monkeypatch):
    records = [{"nums": [a, b, 7], "target": 10 + a} for a in range(1, 20) for b in range(20, 40)]
    Hub(monkeypatch, *records)
    config = DataConfig(train="countdown34", heldout="countdown34")
    train, heldout = (load_side(config, side).problems for side in ("train", "heldout"))
    assert len(train) + len(heldout) == len(records) == 380
    assert 40 < len(heldout) < 115  # one in five
    assert not {p.content for p in train} & {p.content for p in heldout}


def test_without_the_hub_the_error_says_what_to_do(monkeypatch):
    import datasets

    def unreachable(*args, **kwargs):
        raise ConnectionError("Couldn't reach it\non the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(ValueError) as caught:
        load_side(DataConfig(heldout="aime24"), "heldout")
    message = str(caught.value)
    assert message.startswith("HuggingFaceH4/aime_2024 at revision 2fe88a2f1091 cannot be read")
    assert message.endswith("set data.heldout_path to a JSONL or Parquet file of it")
    assert "\n" not in message
