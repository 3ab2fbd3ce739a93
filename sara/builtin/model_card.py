"""The built-in model's card: how it was made, what its weights hash to and how often it is right."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from sara.builtin.pretraining import PretrainingRecipe
from sara.builtin.traces import MAX_TRIES
from sara.evaluation import Evaluation
from sara.rollouts import Rollout


@dataclass(frozen=True)
class PassRates:
    """What the model scored on held-out problems of one size, k rollouts each."""

    size: int
    evaluation: Evaluation

    def row(self) -> str:
        """One line of the card's table."""
        scores = self.evaluation
        share = {
            "effective": np.mean((scores.successes > 0) & (scores.successes < scores.scored)),
            "all fail": np.mean(scores.successes == 0),
            "all pass": np.mean(scores.successes == scores.scored),
        }
        right = _mean_tokens([rollout for rollout in scores.rollouts if rollout.reward == 1])
        wrong = _mean_tokens([rollout for rollout in scores.rollouts if rollout.reward == 0])
        cells = [
            str(self.size),
            str(len(scores.scored)),
            f"{scores.avg_at_k.value:.1%}",
            f"{scores.pass_at_k.value:.1%}",
            *(f"{value:.0%}" for value in share.values()),
            right,
            wrong,
        ]
        return f"| {' | '.join(cells)} |"


def _mean_tokens(rollouts: Sequence[Rollout]) -> str:
    return f"{np.mean([len(rollout.completion.token_ids) for rollout in rollouts]):.0f}" if rollouts else "-"


def write_model_card(folder: Path, command: str, recipe: PretrainingRecipe, rates: Sequence[PassRates]) -> None:
    """Write `README.md` beside the weights."""
    k = rates[0].evaluation.k
    sizes = ", ".join(f"{size}: {weight:g}" for size, weight in recipe.traces.sizes.items())
    traces = recipe.traces
    text = f"""# The built-in model

A small Llama-architecture decoder with a word-level tokenizer, for demonstrations and tests of `sara`.
It searches Countdown problems aloud: it tries a combination, says whether it hits the target, tries
again up to {MAX_TRIES} times, then answers or gives up. It does nothing else.

Made by

    {command}

| | |
|---|---|
| shape | width {recipe.width}, {recipe.layers} layers, {recipe.heads} heads, feed-forward {recipe.feed_forward} |
| training | {recipe.batches} batches of {recipe.batch_size} traces, AdamW, peak rate {recipe.learning_rate:g}, cosine |
| seed | {recipe.seed} |
| data | generated traces of training-side problems; numbers in a problem: weight {{{sizes}}} |
| ranges | numbers {traces.number_range}, targets {traces.target_range}, intermediate values up to \
{traces.max_intermediate} |
| share of tries that are the solution | {traces.hit_rate:g} |
| chance of giving up after a miss | {traces.give_up_rate:g} |
| versions | torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()} |
| SHA-256 of model.safetensors | `{sha256(folder / "model.safetensors")}` |

Measured on held-out problems, {k} rollouts each at temperature 1:

| numbers | problems | avg@{k} | pass@{k} | effective | all fail | all pass | tokens right | tokens wrong |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rate.row() for rate in rates)}

The same command on another processor or another version of torch gives weights that differ in the last
digits and score alike.
"""
    (folder / "README.md").write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
