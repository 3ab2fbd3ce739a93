"""Single tasks by hand: no server, the same result as in a flow, and on what an earlier run left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.running import environment

SETTINGS = [
    *("data.train_size=64", "data.heldout_size=12", "data.sizes={2=1,3=1}", "training.steps=2", "training.threads=1"),
    *("allocation.groups_per_step=4", "allocation.k=4", "allocation.probe=2", "allocation.increment=2"),
    *("evaluation.k=2", "evaluation.bootstrap=100", "training.evaluate_every=0", "name=mine"),
]


def run(folder: Path, *arguments: str, module: str = "flows.cli") -> subprocess.CompletedProcess:
    """A command in a folder, with Prefect pointed at a port where nothing answers: it must not ask."""
    nowhere = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    with (folder / "err").open("w") as err:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment(folder) | nowhere,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            timeout=600,
            check=False,
        )


@pytest.mark.usefixtures("prefect_server")
def test_a_task_alone_gives_what_it_gave_in_a_flow(tmp_path, monkeypatch):
    from flows.train import train_and_evaluate
    from sara.config import RunConfig
    from sara.config_file import load_config

    monkeypatch.chdir(tmp_path)
    in_flow = train_and_evaluate(load_config(RunConfig, None, SETTINGS)).folder.absolute()

    again = run(tmp_path, "--from", str(in_flow), module="tasks.train")
    assert again.returncode == 0, (tmp_path / "err").read_text()[-2000:]
    alone = tmp_path / json.loads(again.stdout)["folder"]
    assert alone.name == "training-again"
    name = "model/model.safetensors"
    assert (alone / name).read_bytes() == (in_flow / name).read_bytes()

    scored = run(tmp_path, "task", "evaluate", "--from", str(in_flow))
    assert scored.returncode == 0, (tmp_path / "err").read_text()[-2000:]
    scores = json.loads(scored.stdout)
    records = [json.loads(line)["metrics"] for line in (in_flow / "metrics.jsonl").read_text().splitlines()]
    in_flow_scores = {key: value for metrics in records for key, value in metrics.items() if key == "eval/accuracy"}
    assert scores["eval/accuracy"] == in_flow_scores["eval/accuracy"]


def test_the_data_of_one_task_are_those_of_the_next(tmp_path):
    prepared = run(tmp_path, "task", "prepare", *SETTINGS)
    assert prepared.returncode == 0, (tmp_path / "err").read_text()[-2000:]
    hashes = {side: found["content_hash"] for side, found in json.loads(prepared.stdout).items() if found}
    other = [*SETTINGS, "data.seed=1", "--data", "outputs/mine/data"]  # what the settings would make is not asked for
    trained = run(tmp_path, "task", "train", *other)
    assert trained.returncode == 0, (tmp_path / "err").read_text()[-2000:]
    from mlflow import MlflowClient

    run_id = json.loads(trained.stdout)["mlflow_run_id"]
    tags = MlflowClient(f"sqlite:///{tmp_path}/outputs/mlflow.db").get_run(run_id).data.tags
    assert {side: tags[f"sara.{side}_hash"] for side in hashes} == hashes


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "--from", "nothing"], "nothing: it is no run's folder (config.json is not there)"),
        (["train", "--data", "nothing"], "nothing: no heldout.jsonl in it"),
        (["train", "allocation.k=1"], "allocation.k = 1; expected a number in [2, 1024]"),
        (["train", "--from", "a", "--config", "b"], "--config and --from given together"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, capsys, arguments, line):
    from flows import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sara", "task", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1
