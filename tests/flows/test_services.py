"""End to end with the real things: Prefect's server and worker and MLflow's server, as `sara up` starts them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from tests.flows.running import ROOT, SMALL, Services, services, wait_for

pytestmark = pytest.mark.services

LONG = {"training": {"steps": 500, "evaluate_every": 0, "threads": 1}, "checkpoint": {"every": 2}}


@pytest.fixture(scope="module")
def up(tmp_path_factory) -> Services:
    with services(tmp_path_factory.mktemp("services")) as running:
        yield running


def steps_of(folder: Path) -> list[int]:
    """Steps in the local record of a run, in the order in which they were written."""
    path = folder / "training" / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [record["step"] for record in records if "rollouts/generated" in record["metrics"]]


def mlflow_runs(up: Services, filter_string: str) -> list:
    client = MlflowClient(up.mlflow)
    experiment = client.get_experiment_by_name("sara")
    return client.search_runs([experiment.experiment_id], filter_string)


def test_every_flow_is_deployed_with_a_form(up):
    found = {d["name"]: d for d in up.ask("/deployments/filter", {})}
    assert set(found) == {"local"}
    flows = {up.ask(f"/flows/{d['flow_id']}")["name"]: d for d in up.ask("/deployments/filter", {})}
    assert set(flows) == {"prepare", "train", "evaluate", "compare", "cell", "sweep", "reproduce"}
    assert all(d["description"] and d["entrypoint"].startswith("flows.") for d in flows.values())
    schema = flows["sweep"]["parameter_openapi_schema"]
    config = schema["definitions"]["SweepConfig"]["properties"]
    assert config["executor"]["enum"] == ["local", "workpool", "ray"]
    assert "Finished" not in config["refresh"]["description"] and config["refresh"]["type"] == "boolean"
    schedules = flows["sweep"]["schedules"]
    assert [(s["slug"], s["active"]) for s in schedules] == [("nightly-ablation", False)]
    assert {d["work_queue_name"] for d in flows.values()} == {"gpu", "control"}


def test_a_killed_worker_s_run_goes_on_from_its_checkpoint_and_a_cancelled_one_ends(up):
    run_id = up.start("train/local", {"config": {**SMALL, **LONG, "name": "long", "strategy": "sara+dps"}})
    folder = up.folder / "outputs" / "long"
    wait_for("five steps", lambda: len(steps_of(folder)) >= 5 or up.run(run_id)["state_type"] == "FAILED")
    run = up.run(run_id)
    assert run["state_name"] == "Running" and run["name"] == "train sara+dps seed 0"
    assert {"gpu", "strategy:sara+dps", "seed:0"} <= set(run["tags"])

    flow_process = psutil.Process(int(run["infrastructure_pid"].rpartition(":")[2]))
    worker = next(p for p in psutil.Process(up.process.pid).children() if "worker" in p.cmdline())
    worker.send_signal(signal.SIGKILL)
    os.kill(flow_process.pid, signal.SIGKILL)
    seen = len(steps_of(folder))
    wait_for("the run to go on", lambda: len(steps_of(folder)) >= seen + 3)
    steps = steps_of(folder)
    assert steps == sorted(set(steps)) == list(range(1, len(steps) + 1)), "a step is missing or doubled"
    assert sorted(path.name for path in folder.parent.glob("long*")) == ["long"]
    assert up.run(run_id)["run_count"] == 2
    assert "another is started" in (up.folder / "up.out").read_text()

    progress = up.artifacts(run_id)["training-sara-dps"]
    assert progress["type"] == "progress" and progress["data"] > 0
    assert "http://127.0.0.1" in up.artifacts(run_id)["mlflow-run"]["data"]

    pid = int(up.run(run_id)["infrastructure_pid"].rpartition(":")[2])
    children = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    up.ask(f"/flow_runs/{run_id}/set_state", {"state": {"type": "CANCELLING"}})
    wait_for("the run to be cancelled", lambda: up.run(run_id)["state_type"] == "CANCELLED")
    wait_for("its processes to be gone", lambda: not any(psutil.pid_exists(child) for child in children))
    (recorded,) = wait_for("MLflow to hear", lambda: mlflow_runs(up, "attributes.status = 'KILLED'"))
    logged = MlflowClient(up.mlflow).get_metric_history(recorded.info.run_id, "rollouts/generated")
    assert sorted(point.step for point in logged) == steps_of(folder)


SWEEP = ["sweep", "name=four", "strategies=sara", "executor=workpool", "--json"]


def sweep_of_four(up: Services, *arguments: str) -> tuple[int, dict, str]:
    """Three cells that train, and one whose model is in a folder that is not there at first."""
    config = up.folder / "four.toml"
    points = [{"allocation.k": 2, "allocation.probe": 1}, {"allocation.k": 4}, {"allocation.tau_low": 0.3}]
    points.append({"model.path": str(up.folder / "model")})
    settings = [f"{section}.{key}={_toml(value)}" for section, keys in SMALL.items() for key, value in keys.items()]
    config.write_text("".join(f"[[points]]\n{_table(point)}\n" for point in points))
    code, out, err = up.cli(*arguments, *SWEEP[1:], "--config", str(config), *settings)
    return code, json.loads(out) if out else {}, err


def _table(point: dict) -> str:
    return "\n".join(f'"{key}" = {_toml(value)}' for key, value in point.items())


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def test_a_sweep_over_the_work_pool_reports_a_failed_cell_and_is_finished_by_the_next_start(up):
    code, said, err = sweep_of_four(up, "sweep")
    statuses = [cell["status"] for cell in said["cells"]]
    assert (code, statuses) == (1, ["finished", "finished", "finished", "failed"]), err
    assert "model.path" in said["cells"][3]["error"] and "\n" not in said["cells"][3]["error"]
    (parent,) = mlflow_runs(up, "tags.`sara.sweep` = 'four' and tags.`sara.kind` = 'sweep'")
    children = mlflow_runs(up, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert len([run for run in children if run.info.status == "FINISHED"]) == 3
    assert {run.data.tags["sara.strategy"] for run in children} == {"sara"}

    shutil.copytree(ROOT / "sara" / "builtin" / "weights", up.folder / "model")
    code, said, err = sweep_of_four(up, "sweep")
    assert code == 0, err
    assert [cell["status"] for cell in said["cells"]] == [*["was finished"] * 3, "finished"]

    before = len(mlflow_runs(up, ""))
    code, said, err = sweep_of_four(up, "sweep")
    assert (code, {cell["status"] for cell in said["cells"]}) == (0, {"was finished"})
    assert len(mlflow_runs(up, "")) == before
    assert said["table"][0]["strategy"] == "base"

    (flow_run, *_) = up.ask("/flow_runs/filter", {"flow_runs": {"tags": {"all_": ["sweep", "sweep:four"]}}})
    artifacts = up.ask("/artifacts/filter", {})
    keys = {artifact["key"] for artifact in artifacts}
    assert {"sweep-four-progress", "sweep-four-cells", "comparison-sara", "mlflow-run"} <= keys
    assert flow_run["state_type"] in ("COMPLETED", "FAILED")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["execution.work_pool=sara-locall"], "no such work pool; did you mean 'sara-local'?"),
        (["execution.job_variables={gpuss=1}"], "has no variable 'gpuss'"),
    ],
)
def test_a_work_pool_or_a_request_that_does_not_exist_is_one_line(up, arguments, line):
    code, said, err = up.cli("sweep", "name=none", "executor=workpool", *arguments)
    assert (code, said) == (2, "")
    assert line in err.splitlines()[-1]
    assert not (up.folder / "outputs" / "none").exists()


def test_the_same_sweep_on_a_ray_cluster(up):
    pytest.importorskip("prefect_ray", reason="the extra `ray` is not installed")
    settings = [f"{section}.{key}={_toml(value)}" for section, keys in SMALL.items() for key, value in keys.items()]
    ray = ["name=on-ray", "executor=ray", "strategies=ds,sara", "grid.allocation.k=2,4", "allocation.probe=1", "--json"]
    code, out, err = up.cli("sweep", *ray, *settings)
    assert code == 0, err[-3000:]
    assert [cell["status"] for cell in json.loads(out)["cells"]] == ["finished"] * 4
    code, out, err = up.cli("sweep", *ray, *settings)
    assert code == 0 and {cell["status"] for cell in json.loads(out)["cells"]} == {"was finished"}, err[-3000:]
    code, out, err = up.cli("sweep", *ray, *settings, "execution.ray_options={num_gpus=64}")
    assert (code, out) == (2, "")
    assert "a cell reserves 64 GPU; expected at most" in err.splitlines()[-1]
