"""Prefect task: score a model on the held-out problems and record it in an MLflow run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from prefect import task
from prefect.cache_policies import NO_CACHE

from sara.config import ExperimentConfig
from sara.datasets import Problem, load_prepared
from sara.engines import make_engine
from sara.evaluation import Evaluation, evaluate, evaluation_sampling, paired_gain
from sara.models import load_policy
from sara.rollouts import PromptPool, RolloutSampler
from tasks.devices import holds_device
from tasks.prepare import PreparedData
from tasks.retries import is_worth_a_retry
from tasks.run_folder import one_line_if_disk_is_full
from tasks.tracking import reopen_run


@task(
    name="evaluate",
    tags=["gpu"],
    retries=1,
    retry_delay_seconds=10,
    retry_condition_fn=is_worth_a_retry,
    cache_policy=NO_CACHE,
    task_run_name="evaluate {config.name} step {step}",
)
@holds_device
def evaluate_model(
    config: ExperimentConfig,
    data: PreparedData,
    run_folder: Path,
    step: int,
    folder: Path,
    base_responses: Path | None = None,
) -> dict[str, float]:
    """Score `config.model` and log the scores at `step` of a run, with every graded response.

    run_folder       folder of the run that the scores are recorded in
    folder           where the graded responses are written
    base_responses   graded responses of the base model on the same problems, to give the gain over it
    returns          the scores, by metric name
    """
    torch.set_num_threads(config.training.threads or torch.get_num_threads())
    problems = load_prepared(config.data, "heldout", data.heldout.path)
    policy = load_policy(config.model)
    sampling, settings = evaluation_sampling(config), config.evaluation
    pool = PromptPool(policy, problems, sampling.max_new_tokens, config.prompt)
    with closing(make_engine(config.engine, policy)) as engine:
        sampler = RolloutSampler(engine, policy.tokenizer, pool, sampling, settings.seed)
        evaluation = evaluate(sampler, settings.k, settings.bootstrap, settings.seed, settings.further_n)
    scores = evaluation.metrics()
    if base_responses is not None:
        scores |= _gain(evaluation, problems, base_responses, config)
    responses = responses_path(folder, step)
    with one_line_if_disk_is_full(folder):
        write_responses(evaluation, responses)
        with reopen_run(run_folder, config.tracking.wait_s) as run:
            run.log_artifact(responses, "evaluation")
            run.log_table(responses, f"evaluation/{responses.stem}-table.json")
            run.log(scores, step=step)  # last: what has its scores is not evaluated again after a kill
    return scores


def responses_path(folder: Path, step: int) -> Path:
    """Where the graded responses of an evaluation lie."""
    return folder / f"responses-step{step}.jsonl"


def _gain(
    evaluation: Evaluation, problems: Sequence[Problem], base_responses: Path, config: ExperimentConfig
) -> dict[str, float]:
    rewards: dict[str, list[int]] = {problem.id: [] for problem in problems}
    for line in base_responses.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rewards[row["id"]].append(row["reward"])
    base_rates = np.array([np.mean(of_problem) if of_problem else 0.0 for of_problem in rewards.values()])
    gain = paired_gain(evaluation.rates, base_rates, config.evaluation.bootstrap, config.evaluation.seed)
    return {"eval/gain": gain.value, "eval/gain_low": gain.low, "eval/gain_high": gain.high}


def write_responses(evaluation: Evaluation, path: Path) -> None:
    """One JSON object a graded response: its problem, what was asked and expected, what was answered, and the text."""
    with path.open("w", encoding="utf-8") as file:
        for rollout in evaluation.rollouts:
            problem = evaluation.problems[rollout.prompt]
            row = {
                "id": problem.id,
                "subject": problem.subject,
                "level": problem.level,
                "slot": rollout.slot,
                "reward": rollout.reward,
                "answer": problem.answer(rollout.text),
                "reference": json.dumps(problem.reference, sort_keys=True),
                "tokens": len(rollout.completion.token_ids),
                "finish_reason": rollout.completion.finish_reason,
                "problem": problem.text,
                "text": rollout.text,
            }
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("evaluate")
