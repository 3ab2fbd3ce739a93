"""`sara data` and the settings of `sara evaluate`: what is shown is what a model is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from flows import cli
from flows.commands.evaluate import read_settings

ROOT = Path(__file__).parents[2]


def run_cli(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["sara", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return (caught.value.code, *capsys.readouterr())


def test_every_set_is_listed_with_its_source(monkeypatch, capsys):
    code, out, _ = run_cli(monkeypatch, capsys, "data", "list", "--json")
    listed = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert set(listed) == {"aime24", "arithmetic", "countdown", "countdown34", "math", "math500"}
    assert listed["aime24"]["hub"].startswith("HuggingFaceH4/aime_2024@")
    assert listed["arithmetic"]["hub"] is None
    assert run_cli(monkeypatch, capsys, "data", "list")[1].count("from the hub") == 4


def test_the_demos_problems_are_shown_as_the_model_is_asked_them(monkeypatch, capsys):
    code, out, err = run_cli(
        monkeypatch, capsys, "data", "show", "--config", str(ROOT / "configs/demo.toml"), "-n", "2"
    )
    assert code == 0
    assert out.count("Think step by step, then answer as <answer> expression </answer>.") == 2
    assert '"target":' in out and " tokens; reference" in out
    assert "512 problems; nothing was left out; content hash 3e097a27fa77427a" in err


def test_the_exact_prompt_and_its_tokens_are_given_for_machines(monkeypatch, capsys):
    arguments = ["data", "show", "--side", "heldout", "-n", "1", "--json", "prompt.style=plain"]
    code, out, _ = run_cli(monkeypatch, capsys, *arguments)
    shown = json.loads(out)
    (row,) = shown["problems"]
    assert code == 0 and (shown["set"], shown["side"], shown["size"]) == ("countdown", "heldout", 512)
    assert row["prompt"].startswith("Use ") and row["fault"] is None
    assert row["prompt_tokens"] >= 25


def test_a_problem_that_the_model_cannot_take_is_shown_with_the_reason(monkeypatch, capsys, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"problem": "What is $1+1$?", "answer": "2"}\n{"problem": "Empty", "answer": ""}\n')
    code, out, err = run_cli(monkeypatch, capsys, "data", "show", "--set", "math500", "--path", str(path))
    assert code == 0
    assert "within \\boxed{}" in out and "builtin cannot take it: " in out
    assert "1 problem; left out: 1 without an answer" in err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["data", "show", "--set", "aime25"], "did you mean 'aime24'?"),
        (["data", "show", "--set", "math500", "--path", "absent.jsonl"], "absent.jsonl: no such data file"),
        (["data", "show", "prompt.style=chat"], "prompt.style = 'chat'; the model has no chat template"),
        (["evaluate", "--set", "aime25"], "did you mean 'aime24'?"),
        (["evaluate", "--k", "0"], "evaluation.k = 0; expected an integer of at least 1"),
        (
            ["evaluate", "--k", "4", "evaluation.pass_at=[8]"],
            "evaluation.pass_at = 8; expected at most evaluation.k = 4",
        ),
        (["evaluate", "--temperature", "-1"], "evaluation.temperature = -1.0; expected a number in [0, inf)"),
        (["evaluate", "--set", "aime24", "--path", "absent.jsonl"], "absent.jsonl: no such data file"),
    ],
)
def test_a_mistake_is_one_line(monkeypatch, capsys, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(monkeypatch, capsys, *arguments)
    assert code == 2 and out == ""
    assert line in err and err.count("\n") == 1


def test_options_of_evaluate_win_over_the_file_and_the_overrides(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('strategies = ["ds"]\n[evaluation]\nk = 2\n[engine]\ntemperature = 1.0\n')
    options = {"evaluation.k": 16, "evaluation.temperature": 0.6, "model.path": "some/model", "data.heldout": "aime24"}
    settings = read_settings(file, ["evaluation.k=4"], options)
    assert (settings.evaluation.k, settings.evaluation.temperature, settings.engine.temperature) == (16, 0.6, 1.0)
    assert (settings.model.path, settings.data.heldout, settings.name) == ("some/model", "aime24", "evaluation")


def test_another_set_is_not_read_from_the_files_path_of_the_set_it_replaces(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('[data]\nheldout = "aime24"\nheldout_path = "aime.jsonl"\nheldout_columns = { answer = "gold" }\n')
    kept = read_settings(file, [], {}).data
    replaced = read_settings(file, [], {"data.heldout": "math500"}).data
    named = read_settings(file, [], {"data.heldout": "math500", "data.heldout_path": Path("m.jsonl")}).data
    assert (str(kept.heldout_path), kept.heldout_columns) == ("aime.jsonl", {"answer": "gold"})
    assert (replaced.heldout_path, replaced.heldout_columns) == (None, {})
    assert str(named.heldout_path) == "m.jsonl"
