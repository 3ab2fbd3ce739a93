"""`sara replay` from the command line: tables, JSON, files, and one line for a mistake."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from flows import cli
from sara.replay.example_log import write_example_log


@pytest.fixture
def run_cli(monkeypatch, tmp_path, capsys):
    """Runs `sara replay` in an empty folder that holds example.jsonl; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    write_example_log(tmp_path / "example.jsonl", prompts=120, steps=8, groups=15)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sara", "replay", *arguments])
        try:
            cli.main()
        except SystemExit as stopped:
            return stopped.code or 0, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_help(run_cli):
    code, out, _ = run_cli("--help")
    assert code == 0 and "--tau-low" in out and "Parquet" in out


def test_tables_and_files(run_cli, tmp_path):
    code, out, err = run_cli("example.jsonl", "--out", "found")
    assert code == 0 and "Recommended: allocation.k=8" in out and "What a replay cannot tell" in out
    assert err == "files    found/replay.json found/replay.png\n"
    assert json.loads((tmp_path / "found/replay.json").read_text())["log"]["groups"] == 120
    assert (tmp_path / "found/replay.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_the_file(run_cli, tmp_path):
    code, out, _ = run_cli(
        "example.jsonl", "--json", "--k", "8", "--tau-low", "0.3,0.5", "--probe", "2,4", "--seed", "3"
    )
    found = json.loads(out)
    assert code == 0 and out == (tmp_path / "outputs/replay/replay.json").read_text()
    assert {row["setting"]["tau_low"] for row in found["settings"]} <= {0.3, 0.5}
    assert [base["k"] for base in found["baselines"]] == [8]
    assert (
        run_cli("example.jsonl", "--json", "--k", "8", "--tau-low", "0.3,0.5", "--probe", "2,4", "--seed", "3")[1]
        == out
    )


def test_every_option_reaches_the_replay(run_cli):
    options = ["--prior", "0.5,1.5", "--on-commit", "stop", "--increment", "1", "--probe", "3", "--tau-low", "0.6"]
    more = ["--target", "2", "--resamples", "0", "--max-lost", "1", "--max-rounds", "9", "--k", "6"]
    code, out, _ = run_cli("example.jsonl", "--json", *options, *more)
    found = json.loads(out)
    (row,) = found["settings"]
    expected = {"k": 6, "tau_low": 0.6, "probe": 3, "increment": 1, "alpha0": 0.5, "beta0": 1.5, "on_commit": "stop"}
    assert code == 0 and row["setting"] == expected and row["cost"]["low"] is None
    assert found["target"] == 2 and found["as_logged"]["uniform"]["opened"] == 16
    assert json.loads(run_cli("example.jsonl", "--json", "--no-drive")[1])["as_logged"] == {}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["absent.jsonl"], "absent.jsonl: no such file or folder"),
        (["example.jsonl", "--columns", "reward=score"], "no column 'score' for the reward; found step, prompt_id"),
        (["example.jsonl", "--columns", "rewards=score"], "did you mean 'reward'?"),
        (["example.jsonl", "--k", "16"], "k = 16; expected 2 to 8"),
        (["example.jsonl", "--k", "4.5"], "--k '4.5'; expected whole numbers separated by commas"),
        (["example.jsonl", "--tau-low", "low"], "--tau-low 'low'; expected numbers"),
        (["example.jsonl", "--tau-low", "1"], "tau_low = 1.0"),
        (["example.jsonl", "--probe", "0"], "probe = 0"),
        (["example.jsonl", "--prior", "1"], "--prior '1'; expected two numbers"),
        (["example.jsonl", "--on-commit", "fil"], "on_commit = 'fil'"),
        (["example.jsonl", "--out", "example.jsonl"], "--out example.jsonl"),
        (["example.jsonl", "--threshold", "nan"], "--threshold nan; expected a finite number"),
        (["example.jsonl", "--max-lost", "nan"], "Invalid value for '--max-lost'"),
        (["example.jsonl", "--max-rounds", "nan"], "Invalid value for '--max-rounds'"),
        (["example.jsonl", "--max-rounds", "inf"], "--max-rounds inf; expected a finite number"),
        (["example.jsonl", "--threshold", "-inf"], "--threshold -inf; expected a finite number"),
        (["example.jsonl", "copy.jsonl"], "example.jsonl, copy.jsonl: every group has rollouts in several of these"),
        (["example.jsonl", "--threshold", "2"], "none of the 120 groups of the log is effective"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(run_cli, tmp_path, arguments, line):
    (tmp_path / "copy.jsonl").write_bytes((tmp_path / "example.jsonl").read_bytes())
    code, out, err = run_cli(*arguments)
    assert (code, out) == (2, "") and err.startswith("sara: ") and line in err
    assert err.count("\n") == 1


def test_the_example_in_the_docs_is_what_comes_out(run_cli, tmp_path):
    docs = (Path(__file__).parents[2] / "docs/replay.md").read_text(encoding="utf-8")
    table, recommendation = re.findall(r"```\n(.*?)```", docs, flags=re.DOTALL)
    write_example_log(tmp_path / "example.jsonl")  # as `python -m sara.replay.example_log example.jsonl`
    code, out, _ = run_cli("example.jsonl")
    assert code == 0
    assert out.startswith(table) and recommendation in out
