"""Engines of every kind over the tiny model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from sara.config import EngineConfig
from sara.engines import is_vllm_installed, make_engine
from sara.engines.base import Completion, Engine, Request
from sara.models import Policy
from sara.seeds import rollout_seeds

NO_VLLM = "vLLM is not installed; `make test` sets it up"
END_TOKEN_IDS = tuple(range(121, 132))  # so many that completions stop at very different lengths
MAX_SEQUENCES = 64


@pytest.fixture(scope="session")
def needs_vllm() -> None:
    if not is_vllm_installed():
        pytest.skip(NO_VLLM)


@pytest.fixture(scope="session")
def contract_policy(make_policy) -> Policy:
    policy = make_policy(width=64)  # vLLM wants attention heads of at least 32
    return Policy(policy.tokenizer, policy.context, policy.model, END_TOKEN_IDS)


@pytest.fixture(
    scope="session",
    params=["hf", pytest.param("vllm", marks=pytest.mark.skipif(not is_vllm_installed(), reason=NO_VLLM))],
)
def engine(request, contract_policy) -> Iterator[Engine]:
    """One engine for the whole session: vLLM takes seconds to start. Whoever changes its weights puts them back."""
    if request.param == "vllm":
        request.getfixturevalue("needs_vllm")
    config = EngineConfig(name=request.param, max_sequences=MAX_SEQUENCES, cache_gib=0.25)
    engine = make_engine(config, contract_policy)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def requests() -> Callable[..., list[Request]]:
    prompts = [(11, 3, 116), (7, 9, 20, 31, 42, 53, 64, 75), (5,), (90, 91, 92, 93, 94), (90, 91, 92, 93, 95)]
    seeds = rollout_seeds(0, 1, np.arange(1000), 0).tolist()

    def make(seeds_per_prompt: int = 4) -> list[Request]:
        groups = [prompt for prompt in prompts for _ in range(seeds_per_prompt)]
        return [Request(prompt, seed) for prompt, seed in zip(groups, seeds, strict=False)]

    return make


@pytest.fixture(scope="session")
def plain_logprobs() -> Callable[..., np.ndarray]:
    """Log-probability of each sampled token by one plain forward pass: no cache, no padding, no batch."""

    def compute(model, request: Request, completion: Completion, temperature: float) -> np.ndarray:
        ids = [*request.prompt_ids, *completion.token_ids.tolist()]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
        log_distribution = torch.log_softmax(logits / temperature, dim=-1)
        start = len(request.prompt_ids)
        return np.array([float(log_distribution[t - 1, ids[t]]) for t in range(start, len(ids))])

    return compute
