"""Makes the built-in model: trains it, measures it on held-out problems and writes its card."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import track

from sara.builtin.model_card import PassRates, write_model_card
from sara.builtin.pretraining import PretrainingRecipe, build_model, pretrain
from sara.builtin.tokenizer import build_tokenizer
from sara.config import DataConfig, EngineConfig, EvaluationConfig, ModelConfig
from sara.datasets import Problem, load_split
from sara.engines import make_engine
from sara.engines.base import Sampling
from sara.evaluation import Evaluation, evaluate
from sara.models import Policy, load_policy
from sara.rollouts import PromptPool, RolloutSampler
from tasks.run_folder import claim_folder

HELDOUT_PROBLEMS = {2: 50, 3: 200, 4: 200, 5: 200}
"""Problems of each size behind the card's pass rates; there are few held-out problems of 2 numbers."""


def make_builtin_model(folder: Path, recipe: PretrainingRecipe) -> Path:
    """Train by the recipe and write model, tokenizer and card; returns the folder, which must be new or empty."""
    problems = {size: _heldout_problems(recipe, size, count) for size, count in HELDOUT_PROBLEMS.items()}
    tokenizer = build_tokenizer()
    model = build_model(recipe, tokenizer)
    with claim_folder(folder) as claimed:
        console = Console(stderr=True)
        losses = pretrain(model, tokenizer, recipe)
        for _ in track(losses, "pretraining", recipe.batches, console=console, disable=not console.is_terminal):
            pass
        model.save_pretrained(claimed)
        tokenizer.save_pretrained(claimed)
        write_card(claimed, recipe, problems)
    return claimed


def write_card(folder: Path, recipe: PretrainingRecipe, problems: dict[int, list[Problem]]) -> None:
    """Measure the model in the folder on held-out problems of each size and write its card."""
    policy = load_policy(ModelConfig(path=str(folder), device="cpu"))
    rates = [PassRates(size, _score(policy, of_size)) for size, of_size in problems.items()]
    command = f"sara pretrain --batches {recipe.batches} --seed {recipe.seed} --out FOLDER"
    write_model_card(folder, command, recipe, rates)


def _heldout_problems(recipe: PretrainingRecipe, size: int, count: int) -> list[Problem]:
    traces = recipe.traces
    data = DataConfig(
        sizes={size: 1.0},
        heldout_size=count,
        number_range=traces.number_range,
        target_range=traces.target_range,
        max_intermediate=traces.max_intermediate,
    )
    return load_split(data, "heldout")


def _score(policy: Policy, problems: list[Problem]) -> Evaluation:
    engine, settings = EngineConfig(name="hf"), EvaluationConfig()
    sampling = Sampling(engine.temperature, engine.max_new_tokens)
    pool = PromptPool(policy, problems, sampling.max_new_tokens)
    sampler = RolloutSampler(make_engine(engine, policy), policy.tokenizer, pool, sampling, settings.seed)
    return evaluate(sampler, settings.k, settings.bootstrap, settings.seed)
