from __future__ import annotations

import json
import sys

import pytest

from flows import cli

QUICK = ("steps=3", "num_seeds=2", "population.prompts=200", "allocation.groups_per_step=4", "strategies=ds,sara")


def run_cli(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sara", "simulate", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


def test_it_explains_itself(monkeypatch, capsys):
    assert run_cli(monkeypatch, "--help") == 0
    out = capsys.readouterr().out
    assert "--json" in out and "--out" in out and "--workers" in out


def test_a_table_for_people_and_files_beside_it(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, *QUICK, "--out", "there") == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["ds", "sara"]
    assert "2 seeds of 3 steps, 4 groups a step, 200 prompts" in out
    assert err.splitlines()[-1].startswith("files    there/simulation.json")
    assert {path.name for path in (tmp_path / "there").iterdir()} == {
        "simulation.json",
        "table.md",
        "costs.png",
        "steps.png",
    }


def test_json_is_the_same_figures(monkeypatch, capsys, tmp_path):
    assert run_cli(monkeypatch, *QUICK, "--json", "--out", str(tmp_path)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "simulation.json").read_text())
    ds, sara = printed["rows"]
    assert (ds["strategy"], sara["strategy"]) == ("ds", "sara")
    assert sara["rollouts_vs_ds"] == pytest.approx(sara["rollouts_per_group"] / ds["rollouts_per_group"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["grid.tau_low=2"], "sara: command line: grid.tau_low.0 = 2; expected a number in (0, 1), or 'auto'"),
        (["population.name=hart"], "population.name = 'hart'; expected one of saturated, hard"),
        (["--config", "absent.toml"], "sara: absent.toml: no such configuration file"),
        ([*QUICK, "--out", "/dev/null/there"], "sara: --out /dev/null/there: Not a directory"),
    ],
)
def test_a_mistake_is_one_line_on_stderr(monkeypatch, capsys, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert line in err and err.count("\n") == 1 and out == ""
    assert list(tmp_path.iterdir()) == []
