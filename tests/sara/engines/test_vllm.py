"""What is vLLM's alone: how it is started, what it refuses, how it survives being killed."""

from __future__ import annotations

import logging
import os
import signal

import numpy as np
import pytest
import torch

from sara.config import EngineConfig
from sara.engines import make_engine
from sara.engines.base import Request, Sampling
from sara.engines.supervised import EngineFailure
from sara.models import Policy

pytestmark = pytest.mark.usefixtures("needs_vllm")

PROMPT = (7, 9, 20, 31, 42)


@pytest.fixture(scope="module")
def policy(make_policy) -> Policy:
    return make_policy(seed=3, width=64)


def start(policy, **settings):
    return make_engine(EngineConfig(name="vllm", **{"max_sequences": 8, "cache_gib": 0.25} | settings), policy)


def test_a_killed_and_a_frozen_vllm_are_replaced_with_the_weights_of_the_last_sync(policy, plain_logprobs, caplog):
    """SIGKILL stands for a crash, SIGSTOP for a kernel that never returns."""
    engine, sampling = start(policy, timeout_s=20), Sampling(1.0, 12)
    asked = [Request(PROMPT, seed) for seed in range(4)]
    try:
        with torch.no_grad():
            policy.model.lm_head.weight.mul_(0.5)
        engine.sync_weights(policy.model.named_parameters())
        healthy = engine.generate(asked, sampling)
        tickets = engine.submit(asked, sampling)
        os.kill(engine.worker_pid, signal.SIGKILL)
        with caplog.at_level(logging.WARNING):
            assert sorted(engine.advance()) == [(ticket, None) for ticket in tickets]
        assert "its process ended (killed by SIGKILL)" in caplog.text
        for request, before, after in zip(asked, healthy, engine.generate(asked, sampling), strict=True):
            assert after.token_ids.tolist() == before.token_ids.tolist() and after.policy_version == 1
            expected = plain_logprobs(policy.model, request, after, 1.0)
            np.testing.assert_allclose(after.behavior_logprobs, expected, atol=1e-4)
        engine.submit(asked, sampling)
        os.kill(engine.worker_pid, signal.SIGSTOP)
        with pytest.raises(EngineFailure, match=r"failed twice under policy version 1; last: no answer to advance\(\)"):
            engine.advance()
    finally:
        engine.close()


@pytest.fixture(scope="module")
def running(policy):
    engine = start(policy, max_model_len=40)
    yield engine
    engine.close()


def test_a_sequence_longer_than_the_engine_takes_is_refused_and_costs_nothing(running):
    with pytest.raises(ValueError, match="5 tokens and max_new_tokens = 36; expected at most 40 together, the engine"):
        running.generate([Request(PROMPT, 1)], Sampling(1.0, 36))
    assert running.num_in_flight == 0
    whole = running.generate([Request(PROMPT, 1)], Sampling(1.0, 35))[0]
    assert len(whole.token_ids) == 35 or whole.finish_reason == "stop"


def test_a_temperature_that_vllm_would_change_is_refused(running):
    with pytest.raises(ValueError, match=r"temperature = 0.001; vLLM samples at 0, or at 0.01 and above"):
        running.generate([Request(PROMPT, 1)], Sampling(0.001, 5))


def test_many_syncs_leave_the_memory_of_the_worker_as_it_was(running, policy):
    import psutil

    worker = psutil.Process(running.worker_pid)
    for _ in range(5):
        running.sync_weights(policy.model.named_parameters())
    before = worker.memory_info().rss
    for _ in range(200):
        running.sync_weights(policy.model.named_parameters())
    size = sum(weight.numel() * 4 for weight in policy.model.parameters())
    assert worker.memory_info().rss - before < 20 * size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cache_gib": 1e5}, r"engine.cache_gib = 100000.0: .*[Aa]vailable memory.* is less than requested"),
        ({"cache_gib": 3e-4}, r"max_model_len = 512, engine.cache_gib = 0.0003: .*needed.* larger than"),
        ({"max_model_len": 1000}, r"engine.max_model_len = 1000; expected at most 512, the model's context"),
    ],
    ids=["more cache than memory", "no cache for one sequence", "longer than the context"],
)
def test_a_vllm_that_cannot_start_says_in_one_line_what_was_asked_and_what_there_is(policy, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        start(policy, **settings)
    assert len(str(caught.value).splitlines()) == 1


class RecordingLLM:
    """Stands in for vLLM's LLM, to see in which order it is told things."""

    llm_engine = None

    def __init__(self):
        self.told = []

    def sleep(self, level):
        self.told.append(f"sleep {level}")

    def wake_up(self, tags):
        self.told.append(f"wake {' '.join(tags)}")

    def collective_rpc(self, method, args):
        self.told.append("reload")

    def reset_prefix_cache(self):
        self.told.append("reset cache")
        return True


@pytest.mark.parametrize("level", [1, 2])
def test_a_sleeping_engine_wakes_weights_first_and_the_cache_after_the_new_ones_are_in_place(level):
    from sara.engines.vllm import VLLMEngine

    llm = RecordingLLM()
    engine = VLLMEngine(llm, [1], 100, sleep_level=level)
    engine.release_memory()
    engine.release_memory()
    with pytest.raises(AssertionError, match="between release_memory"):
        engine.submit([Request(PROMPT, 1)], Sampling(1.0, 5))
    engine.sync_weights([])
    engine.sync_weights([])
    first = [f"sleep {level}", "wake weights", "reload", "wake kv_cache", "reset cache"]
    assert llm.told == [*first, "reload", "reset cache"]


def test_an_engine_that_keeps_its_memory_is_never_put_to_sleep():
    from sara.engines.vllm import VLLMEngine

    llm = RecordingLLM()
    engine = VLLMEngine(llm, [1], 100)
    engine.release_memory()
    engine.sync_weights([])
    assert llm.told == ["reload", "reset cache"]
