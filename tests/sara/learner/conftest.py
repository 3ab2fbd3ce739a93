"""A tiny float64 model and rollouts for it: GPT-2, whose layer norms compute in the type of their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from sara.config import LearnerConfig
from sara.engines.base import Completion
from sara.learner import Learner, TrainingExample
from sara.rollouts import Rollout

TEMPERATURE = 0.8


@pytest.fixture(scope="session")
def make_exact() -> Callable[..., GPT2LMHeadModel]:
    """Fresh float64 models; equal seeds give equal weights."""

    def make(seed: int = 0, dtype: torch.dtype = torch.float64, vocab_size: int = 23, **settings) -> GPT2LMHeadModel:
        sizes = {"n_positions": 48, "n_embd": 16, "n_layer": 2, "n_head": 2} | settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, eos_token_id=1, **sizes))
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.mul_(8)  # fresh weights give almost the same distribution after any text
        return model.to(dtype).eval()

    return make


@pytest.fixture(scope="session")
def make_rollout() -> Callable[..., Rollout]:
    def make(
        prompt_ids: Sequence[int],
        token_ids: Sequence[int],
        prompt: int = 0,
        reward: int = 1,
        reason: str = "stop",
        behavior: Sequence[float] | None = None,
    ) -> Rollout:
        behavior = np.full(len(token_ids), -2.0) if behavior is None else np.asarray(behavior)
        completion = Completion(np.array(token_ids, dtype=np.int64), behavior.astype(np.float32), reason, 0)
        return Rollout(prompt, 0, tuple(prompt_ids), completion, "", reward)

    return make


@pytest.fixture(scope="session")
def random_examples(make_rollout) -> Callable[..., list[TrainingExample]]:
    """Rollouts of random tokens, ragged groups in any order, with random advantages."""

    def make(count: int = 9, seed: int = 0, **known) -> list[TrainingExample]:
        rng = np.random.default_rng(seed)
        examples = []
        for _ in range(count):
            prompt, length = int(rng.integers(0, 3)), int(rng.integers(1, 12))
            prompt_ids = [2 + prompt] * (prompt + 1)
            behavior = rng.normal(-2, 0.5, length)
            rollout = make_rollout(prompt_ids, rng.integers(0, 23, length), prompt, behavior=behavior)
            examples.append(
                TrainingExample(rollout, float(rng.normal()), **{k: f(rng, length) for k, f in known.items()})
            )
        return examples

    return make


@pytest.fixture(scope="session")
def make_exact_learner() -> Callable[..., Learner]:
    def make(model, reference_model=None, corrects_gap: bool = False, **settings) -> Learner:
        settings = {"learning_rate": 1e-3, "max_grad_norm": 1e9, "updates_per_step": 1} | settings
        return Learner(
            model,
            LearnerConfig(**settings),
            TEMPERATURE,
            total_steps=10,
            max_new_tokens=12,
            reference_model=reference_model,
            corrects_gap=corrects_gap,
        )

    return make
