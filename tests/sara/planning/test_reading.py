from __future__ import annotations

import json

import numpy as np
import pytest

from sara.planning.reading import read_pool


def write(tmp_path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_built_in_population_has_no_size():
    pool = read_pool("hard")
    assert pool.prompts is None and pool.pilot is None
    assert float(pool.mixture.mean) == pytest.approx(0.35 / 3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h.csv", "rate,count\n0,6\n0.5,2\n1,0\n"),
        ("h.csv", "\ufeffcount, rate ,note\n6,0,a\n2,0.5,b\n0,1,c\n"),
        ("h.json", '[{"rate": 0, "count": 6}, {"rate": 0.5, "count": 2}, {"rate": 1, "count": 0}]'),
        ("h.json", '{"0": 6, "0.5": 2, "1": 0}'),
    ],
)
def test_a_histogram_says_rates_and_how_many_prompts(tmp_path, name, text):
    pool = read_pool(write(tmp_path, name, text))
    assert pool.prompts == 8
    np.testing.assert_array_equal(pool.mixture.points, [0, 0.5])
    np.testing.assert_allclose(pool.mixture.point_weights, [0.75, 0.25])


def test_shares_do_not_say_how_many_prompts_there_are(tmp_path):
    pool = read_pool(write(tmp_path, "h.csv", "rate,count\n0,0.75\n0.5,0.25\n"))
    assert pool.prompts is None
    assert float(pool.mixture.mean) == pytest.approx(0.125)


def test_a_pilot_adds_up_the_lines_of_a_prompt(tmp_path):
    lines = [
        {"prompt": "a", "successes": 1, "n": 4, "step": 3},
        {"prompt": "a", "successes": 2, "n": 4},
        {"prompt": 7, "successes": 0, "n": 8},
        {"prompt": "7", "successes": 0, "n": 8},
        {"prompt": "never drawn", "successes": 0, "n": 0},
    ]
    pool = read_pool(write(tmp_path, "p.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n"))
    assert pool.pilot.n.tolist() == [8, 8] and pool.pilot.successes.tolist() == [0, 3]
    assert pool.pilot.prompts.tolist() == [2, 1] and pool.left_out == 1
    assert pool.origin.startswith("pilot of 3 prompts and 24 rollouts in ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.csv", "", r"h\.csv: expected columns rate and count; found nothing"),
        ("h.csv", "rate,n\n0,1\n", r"expected columns rate and count; found rate, n"),
        ("h.csv", "rate,count\n0,1\n25,3\n", r"line 3: rate = '25'; expected a number in \[0, 1\]"),
        ("h.csv", "rate,count\nnan,1\n", r"line 2: rate = 'nan'"),
        ("h.csv", "rate,count\n0.5,-1\n", r"line 2: count = '-1'; expected a number of at least 0"),
        ("h.csv", "rate,count\n0.5\n", r"line 2: count = None"),
        ("h.csv", "rate,count\n0.5,inf\n", r"line 2: count = 'inf'"),
        ("h.csv", "rate,count\n0.5,0\n", r"no prompt is counted"),
        ("h.csv", "rate,count\n", r"no prompt is counted"),
        ("h.json", "[1, 2]", r'expected \[\{"rate": 0\.25, "count": 12\}, \.\.\.\]'),
        ("h.json", '[{"rate": true, "count": 1}]', r"entry 1: rate = True"),
        ("h.json", "{", r"line 1: not valid JSON"),
        ("p.jsonl", "", r"no prompt with a rollout"),
        ("p.jsonl", '{"prompt": 1, "successes": 0, "n": 0}\n', r"no prompt with a rollout"),
        ("p.jsonl", '{"prompt": 1, "n": 8}\n', r"line 1: expected fields prompt, successes and n; found n, prompt"),
        ("p.jsonl", '{"prompt": 1, "successes": 9, "n": 8}\n', r"line 1: successes = 9 of n = 8; expected at most n"),
        ("p.jsonl", '{"prompt": 1, "successes": 0.5, "n": 8}\n', r"line 1: successes = 0\.5; expected a whole number"),
        ("p.jsonl", '{"prompt": 1, "successes": NaN, "n": 8}\n', r"line 1: successes = nan"),
        ("p.jsonl", '{"prompt": 1, "successes": true, "n": 8}\n', r"line 1: successes = True"),
        ("p.jsonl", '{"prompt": 1, "successes": 1, "n": 8}\nbroken\n', r"line 2: not valid JSON"),
        ("p.jsonl", "[1]\n", r"line 1: expected fields prompt, successes and n; found none"),
        ("p.parquet", "", r"p\.parquet: expected one of saturated, hard, easy, uniform, or a file that ends in \.csv"),
    ],
)
def test_a_faulty_file_is_one_line_that_says_where(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_pool(write(tmp_path, name, text))
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.csv: no such file"):
        read_pool("absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="cannot be read"):
        read_pool(str(tmp_path / "folder.csv"))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read"):
        read_pool(str(tmp_path / "binary.jsonl"))
