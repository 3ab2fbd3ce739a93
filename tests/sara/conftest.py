"""What several test files need: the built-in tokenizer, tiny random models, an engine that reads a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from sara.builtin.pretraining import PretrainingRecipe, build_model
from sara.builtin.tokenizer import build_tokenizer
from sara.datasets.base import Problem
from sara.engines.base import Completion, Engine, Request, Sampling
from sara.models import Policy, Reader
from sara.rollouts import PromptPool, RolloutSampler

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of what is tested
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Threads that wait for each other over tiny matrices make a busy machine five times slower."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@pytest.fixture(scope="session")
def make_policy(tokenizer) -> Callable[..., Policy]:
    """Tiny policies; equal seeds give equal weights, and no two share a tensor."""

    def make(seed: int = 0, sharpness: float = 10.0, width: int = 32) -> Policy:
        recipe = PretrainingRecipe(width=width, layers=2, heads=2, feed_forward=64, seed=seed)
        model: LlamaForCausalLM = build_model(recipe, tokenizer).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:  # fresh weights give almost the same distribution after any text
                    weight.mul_(sharpness)
        return Policy(tokenizer, recipe.context, model, (tokenizer.eos_token_id,))

    return make


class ScriptedEngine(Engine):
    """Answers each prompt with its own texts in turn; None in place of a text is a request that failed."""

    def __init__(self, tokenizer, texts: Mapping[tuple[int, ...], Iterable[str | None]]):
        self.tokenizer = tokenizer
        self.texts = {prompt: iter(answers) for prompt, answers in texts.items()}
        self.asked: list[Request] = []
        self.max_sequences = 512
        self._in_flight: dict[int, Completion | None] = {}

    @property
    def num_in_flight(self) -> int:
        return len(self._in_flight)

    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        tickets = list(range(len(self.asked), len(self.asked) + len(requests)))
        self.asked += requests
        answers = [self._complete(next(self.texts[request.prompt_ids])) for request in requests]
        self._in_flight |= dict(zip(tickets, answers, strict=True))
        return tickets

    def advance(self) -> list[tuple[int, Completion | None]]:
        """Everything in flight ends at once."""
        ended, self._in_flight = list(self._in_flight.items()), {}
        return ended

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        return {ticket: 0 for ticket in tickets if self._in_flight.pop(ticket, self) is not self}

    def _complete(self, text: str | None) -> Completion | None:
        if text is None:
            return None
        ids = np.array([*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id])
        return Completion(ids, np.full(len(ids), -1.0, dtype=np.float32), "stop", self.policy_version)

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        self.policy_version += 1


@pytest.fixture(scope="session")
def make_sampler(tokenizer) -> Callable[..., RolloutSampler]:
    """A sampler whose engine answers each problem with the texts that stand beside it."""

    def make(script: Sequence[tuple[Problem, Iterable[str | None]]], run_seed: int = 0) -> RolloutSampler:
        sampling = Sampling(temperature=1.0, max_new_tokens=64)
        pool = PromptPool(Reader(tokenizer, context=512), [problem for problem, _ in script], sampling.max_new_tokens)
        texts = {ids: answers for ids, (_, answers) in zip(pool.prompt_ids, script, strict=True)}
        return RolloutSampler(ScriptedEngine(tokenizer, texts), tokenizer, pool, sampling, run_seed)

    return make
