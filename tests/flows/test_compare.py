"""The comparison end to end: the built-in model, real Prefect, real MLflow."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

from sara.config import CompareConfig
from sara.engines import is_vllm_installed
from sara.models import load_policy

pytestmark = pytest.mark.usefixtures("prefect_server")

FATES = ("effective", "abandoned", "audited", "saturated", "surplus", "unfinished", "aborted", "missing")


def run_compare(config: CompareConfig):
    from flows.compare import compare

    return compare(config)


def children(config: CompareConfig, parent_id: str) -> dict[str, object]:
    client = MlflowClient(config.tracking.uri)
    experiment = client.get_experiment_by_name(config.tracking.experiment)
    found = client.search_runs([experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{parent_id}'")
    return {run.data.tags["sara.strategy"]: run for run in found}


def history(config: CompareConfig, run_id: str, metric: str) -> list[tuple[int, float]]:
    points = MlflowClient(config.tracking.uri).get_metric_history(run_id, metric)
    return sorted((point.step, point.value) for point in points)


@pytest.mark.parametrize("engine", ["hf", "vllm"])
def test_a_comparison_trains_evaluates_records_and_reports_every_strategy(small, engine):
    if engine == "vllm" and not is_vllm_installed():
        pytest.skip("vLLM is not installed; `make test` sets it up")
    small = small.model_copy(update={"engine": small.engine.model_copy(update={"name": engine, "cache_gib": 0.25})})
    result = run_compare(small)
    client = MlflowClient(small.tracking.uri)
    parent = client.get_run(result.mlflow_run_id)
    assert parent.info.status == "FINISHED"
    mlflow.set_tracking_uri(small.tracking.uri)
    assert parent.data.params["allocation.k"] == "4"
    assert 0 < parent.data.metrics["eval/accuracy"] < 1
    runs = children(small, result.mlflow_run_id)
    assert set(runs) == {"ds", "sara"}
    for strategy, run in runs.items():
        metrics = run.data.metrics
        assert run.info.status == "FINISHED"
        assert [step for step, _ in history(small, run.info.run_id, "rollouts/generated")] == [1, 2]
        assert [step for step, _ in history(small, run.info.run_id, "eval/accuracy")] == [1, 2]
        for unit in ("rollouts", "tokens"):
            assert sum(metrics[f"{unit}/{fate}"] for fate in FATES) == metrics[f"{unit}/generated"]
        assert metrics["effective_share"] == 1.0
        assert metrics["groups/trained"] == 4
        assert metrics["rollouts/trained"] == 16
        assert metrics["kl_behavior"] < 1e-5
        gain = metrics["eval/accuracy"] - parent.data.metrics["eval/accuracy"]
        assert metrics["eval/gain"] == pytest.approx(gain, abs=1e-12)
        assert metrics["eval/gain_low"] <= gain <= metrics["eval/gain_high"]
        assert metrics["trained/hard"] + metrics["trained/medium"] + metrics["trained/easy"] == 4
        assert metrics["grad_norm"] > 0
        assert metrics["entropy"] > 0
        assert metrics["time/step_s"] >= metrics["time/collect_s"] > 0
        stored = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
        assert {"config.json", "evaluation", "model"} <= stored, strategy
        inputs = {one.tags[0].value: one.dataset for one in run.inputs.dataset_inputs}
        assert set(inputs) == {"training", "evaluation"}
        assert inputs["training"].name == inputs["evaluation"].name == "countdown"
        tags = run.data.tags
        digests = tags["sara.train_hash"][:32], tags["sara.heldout_hash"][:32]
        assert tuple(inputs[side].digest for side in ("training", "evaluation")) == digests
        name = "evaluation/responses-step2-table.json"
        table = client.load_table(run.info.experiment_id, name, [run.info.run_id])
        assert len(table) == 12 * 2 and table["reward"].mean() == pytest.approx(metrics["eval/accuracy"])
        assert set(table["level"]) == {2, 3} and table["problem"].str.contains("once each").all()
    page = result.report.read_text(encoding="utf-8")
    assert "SARA" in page and "DS" in page
    assert {artifact.path for artifact in client.list_artifacts(result.mlflow_run_id)} >= {"report", "config.json"}


def test_the_same_seed_gives_the_same_numbers(small):
    first, second = run_compare(small), run_compare(small)
    assert first.folder != second.folder
    for strategy in ("ds-seed0", "sara-seed0"):
        one, other = (read_metrics(result.folder / strategy / "metrics.jsonl") for result in (first, second))
        assert one == other
        assert ("reward/mean", 2) in one
        weights = [(result.folder / strategy / "model" / "model.safetensors") for result in (first, second)]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def read_metrics(path: Path) -> dict[tuple[str, int], float]:
    """Every value but the times, by metric and step."""
    values = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        values |= {(name, record["step"]): value for name, value in record["metrics"].items() if "time" not in name}
    return values


def test_a_trained_model_differs_from_the_base_and_can_be_trained_on(small):
    from flows.train import train_and_evaluate

    trained = train_and_evaluate(small.run("sara", 0))
    base, after = load_policy(small.model), load_policy(small.with_model(trained.model_path).model)
    name = "model.layers.0.mlp.up_proj.weight"
    assert not base.model.state_dict()[name].equal(after.model.state_dict()[name])
    again = train_and_evaluate(small.run("uniform", 0).with_model(trained.model_path))
    assert again.steps == 2


def test_uniform_and_ds_see_the_same_rollouts_of_a_prompt_in_the_first_step(small):
    """Common random numbers: DS's first chunk is uniform's batch, so both spend the same on it."""
    from sara.datasets import load_problems
    from sara.training import Trainer

    firsts = {}
    for strategy in ("uniform", "ds"):
        config = small.run(strategy, 0)
        trainer = Trainer(config, load_policy(config.model), *load_problems(config.data))
        ledger = trainer.step().collection.ledger
        firsts[strategy] = list(zip(ledger.prompts, ledger.s, ledger.tokens, strict=True))[:4]
    assert firsts["uniform"] == firsts["ds"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"data": {"train_path": "absent.jsonl"}}, "absent.jsonl: no such data file"),
        ({"data": {"train_path": "empty.jsonl"}}, "empty.jsonl: the data file is empty"),
        ({"data": {"train_path": "three.jsonl"}}, "groups_per_step = 4; expected at most 3"),
        ({"data": {"train_path": "faulty.jsonl"}}, "faulty.jsonl:1: numbers must be"),
        (
            {"data": {"train_path": "four.jsonl", "heldout_path": "three.jsonl"}},
            "expected at most 1, the number of training problems (left out: 3 also in an evaluation set",
        ),
        ({"data": {"heldout": "aime24", "heldout_path": "columns.jsonl"}}, "the columns there are: task, gold"),
        ({"engine": {"max_new_tokens": 500}}, "expected at most 512 together, the model's context"),
        ({"model": {"path": "absent/model"}}, "model.path = 'absent/model'"),
        ({"model": {"device": "cuda:99"}}, "model.device = 'cuda:99'"),
        ({"tracking": {"uri": "http://127.0.0.1:9"}}, "http://127.0.0.1:9"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value[:22],
)
def test_a_run_that_cannot_start_says_why_and_leaves_nothing(small, tmp_path, monkeypatch, change, line):
    monkeypatch.chdir(tmp_path)
    Path("columns.jsonl").write_text('{"task": "1+1", "gold": "2"}\n')
    Path("empty.jsonl").write_text("\n")
    Path("faulty.jsonl").write_text('{"numbers": [3, "x"], "target": 4}\n')
    rows = [{"numbers": [2, 3], "target": target} for target in (5, 6, 1)]
    Path("three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    turned = [{"numbers": [3, 2], "target": target} for target in (5, 6, 1, 9)]
    Path("four.jsonl").write_text("".join(json.dumps(row) + "\n" for row in turned))
    values = small.model_dump()
    for section, keys in change.items():
        values[section] |= keys
    with pytest.raises(ValueError) as caught:
        run_compare(CompareConfig.model_validate(values))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (small.output_dir / "small").exists()


def test_a_folder_in_use_is_refused(small):
    from tasks.run_folder import FolderInUse, claim_folder

    with claim_folder(small.output_dir / "small"), pytest.raises(FolderInUse, match="in use by another run"):
        run_compare(small)
