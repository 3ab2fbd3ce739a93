"""The metrics in `docs/metrics.md` are those that runs log: a step of every strategy through real MLflow."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mlflow import MlflowClient

from sara.config import LearnerConfig, RunConfig
from sara.datasets.boxed import boxed_problem
from sara.evaluation import grade
from sara.strategies import STRATEGIES
from tasks.evaluate import evaluate_model, responses_path
from tasks.mlflow_runs import evaluation_run
from tasks.prepare import PreparedData, prepare_data
from tasks.tracking import check_names, mlflow_run_id
from tasks.train import train

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
EVERY_STEP = "Every step of every strategy"
OTHER_SECTIONS = {
    "update": "Steps with an update",
    "importance": "With importance weights",
    "entropy": "With an entropy bonus",
    "reference": "With a reference in the loss",
    "penalty": "With a reference in the reward",
    "ppo": "With PPO",
    "sara": "Steps of SARA and SARA+DPS",
    "audit": "Once an audit is complete",
    "evaluation": "Evaluations",
    "gain": "The last evaluation of a comparison",
    "subjects": "Evaluations on problems with subjects",
}


def documented(*sections: str) -> set[str]:
    """The names in the first columns of the tables of `sections`."""
    texts = {text.partition("\n")[0]: text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
    return {name for section in sections for name in re.findall(r"^\| `([^`]+)` \|", texts[section], re.MULTILINE)}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("documented")
    return RunConfig(
        output_dir=folder,
        data={"train_size": 48, "heldout_size": 12, "sizes": {2: 1.0, 3: 1.0}},
        allocation={"groups_per_step": 3, "k": 4, "probe": 2, "increment": 2},
        engine={"max_new_tokens": 64},
        training={"steps": 1, "evaluate_every": 0, "threads": 1},
        evaluation={"k": 4, "bootstrap": 50},
        tracking={"uri": f"sqlite:///{folder}/mlflow.db", "experiment": "documented"},
    )


@pytest.fixture(scope="module")
def problems(config) -> PreparedData:
    return prepare_data.fn(config, config.output_dir / "data")


def logged_by(config: RunConfig, run_id: str) -> set[str]:
    names = MlflowClient(config.tracking.uri).get_run(run_id).data.metrics
    return {general(name) for name in names}


def general(name: str) -> str:
    """A name as the page has it, which stands for one of each n, level and subject."""
    name = re.sub(r"^eval/pass_at_\d+", "eval/pass_at_<n>", name)
    name = re.sub(r"^eval/level/\d+", "eval/level/<level>", name)
    return re.sub(r"^eval/subject/(.+?)(_low|_high|)$", r"eval/subject/<subject>\2", name)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_logs_what_is_documented(config, problems, strategy):
    run = config.model_copy(update={"strategy": strategy, "name": strategy})
    logged = logged_by(config, train.fn(run, problems).mlflow_run_id)
    sections = ["update", "sara"] if "sara" in strategy else ["update"]
    assert logged == documented(EVERY_STEP, *(OTHER_SECTIONS[section] for section in sections))


@pytest.mark.parametrize(
    ("settings", "section"),
    [
        ({"entropy_coef": 0.01}, "entropy"),
        ({"kl_coef": 0.1}, "reference"),
        ({"kl_coef": 0.1, "kl_in": "reward"}, "penalty"),
        ({"advantage": "ppo"}, "ppo"),
    ],
)
def test_settings_of_the_learner_log_what_is_documented(config, problems, settings, section):
    learner = LearnerConfig(**settings)
    run = config.model_copy(update={"strategy": "uniform", "name": f"with-{section}", "learner": learner})
    logged = logged_by(config, train.fn(run, problems).mlflow_run_id)
    assert logged == documented(EVERY_STEP, OTHER_SECTIONS["update"], OTHER_SECTIONS[section])


def test_importance_weights_log_what_is_documented(config, problems):
    """bfloat16 weights: engine and learner round differently."""
    model = config.model.model_copy(update={"dtype": "bfloat16"})
    run = config.model_copy(update={"strategy": "uniform", "name": "bfloat16", "model": model})
    logged = logged_by(config, train.fn(run, problems).mlflow_run_id)
    assert logged == documented(EVERY_STEP, OTHER_SECTIONS["update"], OTHER_SECTIONS["importance"])


def test_audits_log_what_is_documented(config, problems):
    allocation = config.allocation.model_copy(update={"audit_rate": 1.0})
    run = config.model_copy(update={"strategy": "sara", "name": "audited", "allocation": allocation})
    logged = logged_by(config, train.fn(run, problems).mlflow_run_id)
    assert logged - documented(EVERY_STEP, OTHER_SECTIONS["update"], OTHER_SECTIONS["sara"]) == documented(
        OTHER_SECTIONS["audit"]
    )


def test_a_step_without_an_effective_group_logs_no_update(config, problems):
    """Rollouts of one token are all wrong."""
    engine = config.engine.model_copy(update={"max_new_tokens": 1})
    run = config.model_copy(update={"strategy": "uniform", "name": "nothing", "engine": engine})
    assert logged_by(config, train.fn(run, problems).mlflow_run_id) == documented(EVERY_STEP)


def test_evaluations_log_what_is_documented(config, problems):
    with evaluation_run(config, problems, config.output_dir):
        evaluate_model.fn(config, problems, config.output_dir, 0, config.output_dir)
        run_id = mlflow_run_id(config.output_dir)
        assert logged_by(config, run_id) == documented(OTHER_SECTIONS["evaluation"])
        base = responses_path(config.output_dir, 0)
        evaluate_model.fn(config, problems, config.output_dir, 1, config.output_dir, base_responses=base)
        assert logged_by(config, run_id) == documented(OTHER_SECTIONS["evaluation"], OTHER_SECTIONS["gain"])


def test_subjects_are_logged_as_documented():
    """The built-in model cannot read such problems: graded texts stand for its own."""
    problem = boxed_problem("p", "1 + 1", "2", "Counting & Probability", 3)
    completion = SimpleNamespace(token_ids=(1, 2), finish_reason="stop")
    rollout = SimpleNamespace(prompt=0, slot=0, reward=1, text=r"\boxed{2}", completion=completion)
    metrics = grade([problem], np.array([[1, -1]]), [rollout], bootstrap=50, seed=0).metrics()
    check_names(metrics)
    named = {general(name) for name in metrics}
    assert named - documented(OTHER_SECTIONS["evaluation"]) == documented(OTHER_SECTIONS["subjects"])


def test_no_metric_is_documented_twice_or_outside_these_sections():
    names = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert sorted(names) == sorted(documented(EVERY_STEP, *OTHER_SECTIONS.values()))
