"""Reading logs: both trainers' shapes, streaming, and every kind of bad input."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.replay import GroupLog, parse_mapping, read_log


def rows_of(groups, step=0, **more) -> list[dict]:
    """JSONL rows of groups given as {prompt: rewards}."""
    return [{"step": step, "prompt": p, "reward": r, **more} for p, rewards in groups.items() for r in rewards]


def same(one: GroupLog, other: GroupLog) -> bool:
    arrays = ("rewards", "offsets", "prompts", "steps")
    lengths = (one.lengths is None) == (other.lengths is None) and np.array_equal(one.lengths, other.lengths)
    return lengths and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


def trl_table(step: int, rewards: dict[str, list[float]], **extra) -> pa.Table:
    """As TRL writes `completions/completions_00010.parquet`, one column a reward function."""
    prompts = [prompt for prompt, values in rewards.items() for _ in values]
    values = [value for values in rewards.values() for value in values]
    columns = {
        "step": [step] * len(prompts),
        "prompt": prompts,
        "completion": ["x" * (i + 1) for i in range(len(prompts))],
        "accuracy_reward": values,
        **{name: [column] * len(prompts) for name, column in extra.items()},
        "advantage": [0.0] * len(prompts),
    }
    return pa.table(columns)


def test_trl_completion_logs(tmp_path):
    for step, rewards in ((2, {"a": [0.0, 1.0, 0.0], "b": [1.0, 1.0, 1.0]}), (10, {"a": [0.0, 0.0, 0.0]})):
        pq.write_table(trl_table(step, rewards), tmp_path / f"completions_{step:05d}.parquet")
    log = read_log([tmp_path])
    assert log.layouts == ("TRL completion log",)
    assert (log.num_groups, log.num_prompts, log.k, log.step_labels) == (3, 2, 3, (2, 10))
    assert log.rewards.tolist() == [0, 1, 0, 1, 1, 1, 0, 0, 0]
    assert (log.unit, log.lengths.tolist()) == ("characters", [1, 2, 3, 4, 5, 6, 1, 2, 3])


def test_trl_with_several_reward_functions_has_to_be_told_which(tmp_path):
    pq.write_table(trl_table(0, {"a": [0.0, 1.0]}, format_reward=0.5, source="math"), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"--columns reward=... which reward to use: one of accuracy_reward, format_"):
        read_log([tmp_path])
    assert read_log([tmp_path], {"reward": "accuracy_reward"}).rewards.tolist() == [0, 1]


def test_older_trl_logs_with_a_total_reward_and_text_steps(tmp_path):
    rows = [{"step": "12", "prompt": "p", "completion": "..", "reward": r, "reward_format": 1.0} for r in (1.0, 0.0)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    log = read_log([tmp_path])
    assert (log.rewards.tolist(), log.step_labels) == ([1, 0], (12,))


def test_verl_rollout_dumps(tmp_path, write_jsonl):
    # 1.jsonl, 2.jsonl, ... one file a step; batches are balanced, so groups are interleaved.
    for step in (10, 9):
        rows = [
            {"input": f"q{i % 2}", "output": "y" * i, "gts": "7", "score": float(i < 3), "step": step, "acc": i < 3}
            for i in range(6)
        ]
        write_jsonl(tmp_path / f"{step}.jsonl", rows)
    log = read_log([tmp_path])
    assert log.layouts == ("verl rollout dump",)
    assert (log.num_groups, log.num_prompts, log.k, log.step_labels) == (4, 2, 3, (9, 10))
    assert log.rewards[:6].tolist() == [1, 1, 0, 1, 0, 0]  # q0: rows 0, 2, 4; q1: rows 1, 3, 5
    assert log.lengths[:6].tolist() == [0, 2, 4, 1, 3, 5]
    assert [path.name for path in log.files] == ["9.jsonl", "10.jsonl"]


def test_shaped_rewards_point_to_the_plain_column(tmp_path, write_jsonl):
    rows = [{"input": "q", "output": "y", "score": s, "acc": s > 0} for s in (-1.0, 0.7, -1.0)]
    path = write_jsonl(tmp_path / "1.jsonl", rows)
    with pytest.raises(ValueError, match=r"'score' holds -1, 0.7; .* --threshold -0.15 .*--columns reward=acc"):
        read_log([path])
    assert read_log([path], {"reward": "acc"}).rewards.tolist() == [0, 1, 0]
    assert read_log([path], threshold=0).rewards.tolist() == [0, 1, 0]


def test_named_columns_token_ids_and_messages(tmp_path, write_jsonl):
    chat = [{"role": "user", "content": "hi"}]
    rows = [{"who": chat, "ok": ok, "answer_ids": [1, 2, 3][:n]} for ok, n in ((True, 1), (False, 3))]
    log = read_log([write_jsonl(tmp_path / "x.log", rows)], parse_mapping("prompt=who, reward=ok,length=answer_ids"))
    assert (log.rewards.tolist(), log.lengths.tolist(), log.unit) == ([1, 0], [1, 3], "tokens")
    rows = [{"prompt": chat, "reward": 1, "completion": [{"role": "assistant", "content": "12345"}]}] * 2
    log = read_log([write_jsonl(tmp_path / "y.log", rows)])
    assert (log.num_groups, log.lengths.tolist(), log.unit) == (1, [5, 5], "characters")


def test_without_steps_each_file_is_a_step(tmp_path, write_jsonl):
    rows = [{"prompt_id": p, "reward": r} for p, r in ((7, 0), (7, 1), (8, 1), (8, 1))]
    log = read_log([write_jsonl(tmp_path / f"{i}.jsonl", rows) for i in (2, 1)])
    assert (log.num_groups, log.num_prompts, log.num_steps) == (4, 2, 2)
    assert log.lengths is None and log.unit is None
    assert log.skipped.files_without_steps == 2 and log.skipped.without_length == 0


def test_gzip_parquet_and_plain_say_the_same(tmp_path, write_jsonl):
    rows = rows_of({"a": [0, 1, 1], "b": [0, 0, 0]}, tokens=5)
    plain = write_jsonl(tmp_path / "a.jsonl", rows)
    zipped, parquet = tmp_path / "a.jsonl.gz", tmp_path / "a.parquet"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    logs = [read_log([path]) for path in (plain, zipped, parquet)]
    assert same(logs[0], logs[1]) and same(logs[0], logs[2])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_streaming_in_chunks_equals_reading_at_once(tmp_path_factory, write_jsonl, data):
    row = st.fixed_dictionaries(
        {
            "step": st.integers(0, 3) | st.none(),
            "prompt": st.sampled_from(["a", "b", "ü", ""]) | st.none(),
            "reward": st.sampled_from([0, 1, 0.0, True, None, float("nan")]),
            "tokens": st.integers(0, 9),
        }
    )
    rows = data.draw(st.lists(row, min_size=1, max_size=40)) + rows_of({"a": [0, 1]}, step=9, tokens=1)
    rows[0] = {"step": 9, "prompt": "a", "reward": 1, "tokens": 2}
    folder = tmp_path_factory.mktemp("chunks")
    jsonl = write_jsonl(folder / "log.jsonl", rows)
    parquet = folder / "log.parquet"
    typed = [row | {"reward": None if row["reward"] is None else float(row["reward"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(typed), parquet, row_group_size=7)
    whole = read_log([jsonl])
    for path in (jsonl, parquet):
        chunked = read_log([path], chunk_rows=data.draw(st.integers(1, 9)))
        assert same(whole, chunked) and whole.skipped == chunked.skipped
    # Nothing is lost: each row is in a group, or is counted as left out.
    skipped = whole.skipped
    left_out = skipped.without_prompt + skipped.without_step + skipped.without_reward + skipped.groups_of_one
    assert whole.num_rollouts + left_out == len(rows)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_interleaving_groups_changes_nothing(tmp_path_factory, write_jsonl, data):
    groups = {name: data.draw(st.lists(st.integers(0, 1), min_size=2, max_size=6)) for name in "abcde"}
    rows = rows_of(groups)
    order = data.draw(st.permutations([row["prompt"] for row in rows]))
    queues = {name: iter(rewards) for name, rewards in groups.items()}
    mixed = [{"step": 0, "prompt": name, "reward": next(queues[name])} for name in order]
    folder = tmp_path_factory.mktemp("mixed")
    one = read_log([write_jsonl(folder / "one.jsonl", rows)])
    other = read_log([write_jsonl(folder / "other.jsonl", mixed)])
    assert sorted_groups(one) == sorted_groups(other)


def sorted_groups(log: GroupLog) -> list[list[int]]:
    pieces = np.split(log.rewards, log.offsets[1:-1])
    return [pieces[i].tolist() for i in np.argsort(log.prompts)]


def test_unusable_rows_are_counted_and_reported(tmp_path, write_jsonl):
    rows = [
        *rows_of({"a": [0, 1, 1], "b": [1, 0, None], "c": [1]}),
        {"step": 0, "prompt": None, "reward": 1},
        {"step": None, "prompt": "a", "reward": 1},
        {"step": 0, "prompt": "a", "reward": float("nan")},
        {"step": 0, "prompt": "a"},
    ]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    with path.open("a") as file:
        file.write('\n[1, 2]\n"text"\n{"step": 0, "prompt": "a", "rew')  # the last line of a killed run
    (tmp_path / "empty.jsonl").touch()
    log = read_log([path, tmp_path / "empty.jsonl"])
    skipped = log.skipped
    assert (skipped.without_prompt, skipped.without_step, skipped.without_reward) == (1, 1, 3)
    assert (skipped.groups_of_one, skipped.empty_files, skipped.broken_lines) == (1, 1, 3)
    assert skipped.first_broken.endswith("log.jsonl, line 13")
    assert log.rewards.tolist() == [0, 1, 1, 1, 0] and log.k == 3


def test_a_gzip_file_that_was_cut_short_is_read_up_to_there(tmp_path):
    lines = "".join(json.dumps({"step": i, "prompt": "p", "reward": i % 2, "pad": i**9}) + "\n" for i in range(4000))
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress((lines + lines).encode())[:-9000])
    log = read_log([path])
    assert log.skipped.broken_lines == 1 and log.num_rollouts > 100


def test_lengths_that_are_missing_somewhere_are_not_reported(tmp_path, write_jsonl):
    rows = rows_of({"a": [0, 1]}, tokens=3) + rows_of({"b": [0, 1]}, tokens=None)
    log = read_log([write_jsonl(tmp_path / "log.jsonl", rows)])
    assert (log.lengths, log.unit, log.skipped.without_length) == (None, None, 2)
    log = read_log([write_jsonl(tmp_path / "zeros.jsonl", rows_of({"a": [0, 1, 1]}, tokens=0))])
    assert (log.lengths, log.unit, log.skipped.without_length) == (None, None, 3)


def test_a_threshold_counts_rewards_of_at_least_itself_as_right(tmp_path, write_jsonl):
    path = write_jsonl(tmp_path / "log.jsonl", rows_of({"a": [0.2, 0.5, 0.7, -1]}))
    assert read_log([path], threshold=0.5).rewards.tolist() == [0, 1, 1, 0]


def test_progress_adds_up_to_the_size_of_the_files(tmp_path, write_jsonl):
    jsonl, parquet = write_jsonl(tmp_path / "a.jsonl", rows_of({"a": [0, 1] * 500})), tmp_path / "b.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of({"a": [0, 1] * 500}, step=1)), parquet)
    counts: list[int] = []
    read_log([jsonl, parquet], {}, chunk_rows=100, on_bytes=counts.append)
    assert sum(counts) == jsonl.stat().st_size + parquet.stat().st_size and len(counts) > 10


def test_rollouts_of_a_group_in_several_files_are_joined_and_counted(tmp_path, write_jsonl):
    shards = [
        write_jsonl(tmp_path / f"rank{i}.jsonl", rows_of({"a": [i, i], "b": [0] * (1 + i), f"only {i}": [0, 1]}))
        for i in (0, 1)
    ]
    log = read_log([*shards, shards[0]])  # a file that is named twice is read once
    assert (log.num_groups, log.num_spanning, log.sizes.tolist()) == (4, 2, [4, 3, 2, 2])


def test_a_run_that_is_given_under_two_names_is_refused_with_both(tmp_path, write_jsonl):
    rows = rows_of({"a": [0, 1], "b": [0, 0]})
    good, copy = (write_jsonl(tmp_path / name, rows) for name in ("good.jsonl", "copy.jsonl"))
    assert read_log([good]).sizes.tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"good\.jsonl, .*copy\.jsonl: every group has rollouts in several") as caught:
        read_log([good, copy])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "options", "line"),
    [
        ([{"prompt": "a", "reward": 2}], {}, r"'reward' holds 2; expected 0 and 1; --threshold 2"),
        ([{"prompt": "a", "reward": r} for r in (0, 0.5, 1)], {}, r"holds 0, 0.5, 1; .* --threshold 0.5"),
        ([{"prompt": "a", "reward": i} for i in range(9)], {}, r"holds 0, 1, 2, 3, 4, 5, \.\.\.;"),
        ([{"prompt": "a", "reward": float("inf")}], {}, r"holds inf; .*--threshold 0.5"),
        (
            [{"prompt": "a", "reward": r} for r in (0, 0.9999999999)],
            {},
            r"holds 0, 0\.9999999999; expected 0 and 1; --threshold 0\.5 ",
        ),
        (
            [{"prompt": "a", "reward": r} for r in (1, 1.0000000001)],
            {},
            r"holds 1, 1\.0000000001; .* --threshold 1\.00000000005 ",
        ),
        ([{"prompt": "a", "reward": "right"}], {}, r"row 1: column 'reward' holds 'right'; expected a number"),
        ([{"prompt": "a", "reward": 1}, {"prompt": "a", "reward": [1]}], {}, r"row 2: column 'reward' holds \[1\]"),
        ([{"prompt": "a", "reward": 1}, {"prompt": 3, "reward": 1}], {}, r"prompts are number, but text in .*row 1"),
        (
            [{"prompt": "a", "step": 1, "reward": 1}, {"prompt": "a", "step": "b", "reward": 1}],
            {},
            r"row 2: steps are texts, but numbers in .*row 1; expected one kind",
        ),
        ([{"prompt": "a", "reward": 10**400}], {}, r"row 1: column 'reward' holds 1000.*…; expected 0 and 1"),
        (
            [{"prompt": "a", "reward": 1, "length": 10**30}],
            {},
            r"column 'length' holds 1000.*; expected a whole number in",
        ),
        ([{"prompt": 1.5, "reward": 1}], {}, r"row 1: prompt 1.5; expected a text, a whole number"),
        ([{"prompt": "a", "reward": 1, "step": 0.5}], {}, r"row 1: step 0.5; expected a whole number"),
        ([{"prompt": "a", "reward": 1, "tokens": -3}], {}, r"row 1: column 'tokens' holds -3; expected a whole"),
        ([{"prompt": "a", "reward": 1, "tokens": "12"}], {}, r"'tokens' holds '12'"),
        ([{"text": "a", "value": 1}], {}, r"no prompt column; found text, value; name it with --columns prompt="),
        ([{"prompt": "a", "value": 1}], {}, r"no reward column; found prompt, value"),
        ([{"prompt": "a", "reward": 1}], {"mapping": {"length": "len"}}, r"no column 'len' for the length; found pro"),
        ([{"prompt": "a", "reward": None}], {}, r"no rollout that can be used: .* 1 without a reward"),
        ([{"prompt": i, "reward": 1} for i in range(3)], {}, r"every group is a group of one: 3 rollouts"),
        (
            [{"prompt": 1, "reward": 1}, {"prompt": 1, "reward": float("nan")}],
            {},
            r"every group is a group of one: 1 rollouts.*; left out before: 0 .*, 1 without a reward",
        ),
        ([], {}, r"log.jsonl: no rows"),
    ],
)
def test_what_would_make_a_wrong_number_is_one_clear_line(tmp_path, write_jsonl, rows, options, line):
    with pytest.raises(ValueError, match=line) as caught:
        read_log([write_jsonl(tmp_path / "log.jsonl", rows)], **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("log.jsonl", b'[{"prompt": "a", "reward": 1}]\n', "a JSON array; expected one JSON object a line"),
        ("log.jsonl", b"prompt,reward\na,1\n", "line 1: no JSON object; expected JSONL"),
        ("log.jsonl", b"\xff\xfe\x00", "line 1: no JSON object"),
        ("log.parquet", b"PAR1 and then nothing that is Parquet", "cannot be read"),
        ("log.jsonl.gz", b"\x1f\x8bnot a gzip stream", "cannot be read"),
        ("log.jsonl", b"\n\n \n", "no rows"),
    ],
)
def test_files_that_are_no_logs_are_one_clear_line(tmp_path, name, content, line):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=line) as caught:
        read_log([tmp_path / name])
    assert "\n" not in str(caught.value) and name in str(caught.value)


def test_paths_that_lead_nowhere_are_one_clear_line(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.jsonl: no such file or folder"):
        read_log([tmp_path / "absent.jsonl"])
    with pytest.raises(ValueError, match=r"no log in this folder; expected files named \*.jsonl"):
        read_log([tmp_path])


def test_files_that_count_lengths_in_other_units_are_refused(tmp_path, write_jsonl):
    tokens = write_jsonl(tmp_path / "a.jsonl", rows_of({"a": [0, 1]}, tokens=3))
    texts = write_jsonl(tmp_path / "b.jsonl", rows_of({"a": [0, 1]}, step=1, completion="abc"))
    with pytest.raises(ValueError, match=r"b\.jsonl: lengths are characters, but tokens in .*a.jsonl"):
        read_log([tokens, texts])


@pytest.mark.parametrize(
    ("text", "line"),
    [("prompt", "expected role=column"), ("promt=x", "did you mean 'prompt'"), ("reward=", "expected role=column")],
)
def test_a_mapping_that_is_none_is_refused(text, line):
    with pytest.raises(ValueError, match=line):
        parse_mapping(text)
