"""The command line: one clear line and exit code 2 for a mistake; help for every command; a real run with no server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows import cli
from sara.engines.supervised import EngineFailure

COMMANDS = ("compare", "train", "evaluate", "report", "data", "simulate", "replay", "plan", "sync", "pretrain", "ui")


def run_cli(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sara", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(monkeypatch, capsys, command):
    assert run_cli(monkeypatch, command, "--help") == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["compare", "allocation.tau_low=2"],
            "sara: command line: allocation.tau_low = 2; expected a number",
        ),
        (["compare", "strategies=sarah"], "did you mean 'sara'?"),
        (["train", "--config", "absent.toml"], "sara: absent.toml: no such configuration file"),
        (["report", "tracking.uri=http://127.0.0.1:9"], "http://127.0.0.1:9"),
        (["report", "tracking.uri=file:./mlruns"], "file:"),
        (["pretrain", "--batches", "0", "--out", "model"], "sara: Invalid value for '--batches'"),
        (["plan", "--nope"], "sara: No such option: --nope"),
        (["nope"], "sara: No such command 'nope'."),
    ],
)
def test_a_mistake_is_one_line_on_stderr(monkeypatch, capsys, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    assert run_cli(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert line in err
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_the_commands_are_listed(monkeypatch, capsys):
    assert run_cli(monkeypatch) == 0
    listed = capsys.readouterr().out
    assert [command for command in COMMANDS if command not in listed] == []


def test_an_interrupt_says_that_it_stopped(monkeypatch, capsys, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sara.sweeps.load_run_config", interrupted)
    assert run_cli(monkeypatch, "train") == 130
    assert capsys.readouterr().err == "sara: stopped\n"


def test_a_run_that_cannot_go_on_says_so_in_one_line(monkeypatch, capsys):
    def failed(*_):
        raise EngineFailure("the engine failed twice")

    monkeypatch.setattr("sara.sweeps.load_run_config", failed)
    assert run_cli(monkeypatch, "train") == 1
    assert capsys.readouterr().err == "sara: the engine failed twice\n"


def test_a_port_in_use_is_refused(monkeypatch, capsys, tmp_path):
    import socket

    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run_cli(monkeypatch, "ui", "--mlflow-port", str(port)) == 2
    assert f"port {port} is taken" in capsys.readouterr().err


def test_evaluate_runs_with_no_server_and_prints_json(tmp_path):
    overrides = ["data.heldout_size=12", "data.sizes={2=1,3=1}", "evaluation.k=2", "training.threads=1"]
    environment = os.environ | {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": ""}
    del environment["PREFECT_API_URL"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        subprocess.run(
            [sys.executable, "-m", "flows.cli", "evaluate", "--json", *overrides],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=out,
            stderr=err,
            timeout=300,
            check=True,
        )
    scores = json.loads((tmp_path / "out").read_text())
    assert scores["eval/accuracy_low"] <= scores["eval/accuracy"] <= scores["eval/accuracy_high"]
    assert (tmp_path / "outputs" / "mlflow.db").is_file()
    responses = (tmp_path / "outputs/evaluation/responses-step0.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["reward"] for line in responses) / len(responses) == scores["eval/accuracy"]
