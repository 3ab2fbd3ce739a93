from __future__ import annotations

import json
import sys

import pytest

from flows import cli

QUICK = ("simulated.steps=2", "simulated.num_seeds=2", "prompts=300", "strategies=ds,sara")


def run_cli(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sara", "plan", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


def test_it_explains_itself(monkeypatch, capsys):
    assert run_cli(monkeypatch, "--help") == 0
    out = capsys.readouterr().out
    assert "SOURCE" in out and "--json" in out and "--out" in out


def test_a_table_and_sentences_for_people_and_files_beside_them(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, "hard", *QUICK) == 0
    out, err = capsys.readouterr()
    assert [line.split("  ")[0] for line in out.splitlines()[3:6]] == ["ds", "sara", "sara, advised"]
    assert "built-in population 'hard'" in out and "settings: " in out and "strategy: " in out
    assert err.splitlines()[-1] == "files    outputs/plan/plan.json outputs/plan/plan.md outputs/plan/plan.png"


def test_json_is_the_same_figures(monkeypatch, capsys, tmp_path):
    assert run_cli(monkeypatch, *QUICK, "--json", "--out", str(tmp_path)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "plan.json").read_text())
    assert printed["config"]["source"] == "saturated"
    assert [row["strategy"] for row in printed["predictions"]] == ["ds", "sara", "sara"]


def test_a_pilot_log_is_planned_for(monkeypatch, capsys, tmp_path):
    log = tmp_path / "pilot.jsonl"
    log.write_text("".join(json.dumps({"prompt": i, "successes": i % 5, "n": 8}) + "\n" for i in range(50)))
    assert run_cli(monkeypatch, str(log), *QUICK, "--out", str(tmp_path)) == 0
    assert "pilot of 50 prompts and 400 rollouts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["hart"], "sara: hart: expected one of saturated, hard, easy, uniform, or a file"),
        (["absent.csv"], "sara: absent.csv: no such file"),
        (["hard", "easy"], "sara: command line: 2 sources, hard and easy; expected one"),
        (["machine.gpus=0"], "machine.gpus = 0"),
        (["--config", "absent.toml"], "sara: absent.toml: no such configuration file"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(monkeypatch, capsys, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert line in err and err.count("\n") == 1 and out == ""
    assert list(tmp_path.iterdir()) == []
