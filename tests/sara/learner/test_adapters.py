"""LoRA: small trained matrices, handed on as full weights."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sara.config import ModelConfig
from sara.learner import TrainingExample
from sara.learner.adapters import adapters_off, full_weights
from sara.learner.forward import TokenScorer
from sara.learner.micro_batches import as_rows
from sara.models import load_policy, save_policy

peft = pytest.importorskip("peft", reason="LoRA needs the extra `lora`")

LORA = {"lora_rank": 2, "lora_alpha": 8.0, "learning_rate": 0.05}


def update(learner, examples, seed=0):
    return learner.update(examples, np.random.default_rng(seed))


def test_fresh_adapters_leave_the_policy_as_it_was_and_training_moves_them_alone(
    make_exact, make_exact_learner, random_examples
):
    model, examples = make_exact(), random_examples()
    base = copy.deepcopy(model.state_dict())
    batch = as_rows(examples, "cpu")
    before = TokenScorer(model, 0.8, 2**20)(batch).logprobs.detach()
    learner = make_exact_learner(model, **LORA)
    torch.testing.assert_close(learner.scorer(batch).logprobs.detach(), before, atol=1e-12, rtol=0)
    update(learner, examples)
    assert (learner.scorer(batch).logprobs.detach() - before).abs().max() > 0.01
    plain = {name.replace(".base_layer", ""): w for name, w in model.state_dict().items() if "lora_" not in name}
    assert plain.keys() == base.keys() and all(torch.equal(base[name], weight) for name, weight in plain.items())
    assert learner.optimizer.state_dict()["optimizer"]["state"].keys() == set(range(16))  # A and B of 8 layers


def test_full_weights_are_those_of_a_plain_model_that_scores_the_same(make_exact, make_exact_learner, random_examples):
    model, examples = make_exact(), random_examples()
    learner = make_exact_learner(model, **LORA)
    update(learner, examples)
    plain = make_exact(seed=1)
    names = [name for name, _ in plain.named_parameters()]
    handed_on = dict(learner.full_weights())
    assert list(handed_on) == names
    plain.load_state_dict(handed_on, strict=False)
    batch = as_rows(examples, "cpu")
    found = TokenScorer(plain, 0.8, 2**20)(batch).logprobs
    torch.testing.assert_close(found, learner.scorer(batch).logprobs, atol=1e-5, rtol=0)  # merged in float32


def test_full_weights_of_a_model_without_adapters_are_its_own(make_exact):
    model = make_exact()
    pairs = zip(full_weights(model), model.named_parameters(), strict=True)
    assert all(left[0] == right[0] and left[1] is right[1] for left, right in pairs)


def test_the_reference_of_adapters_is_the_model_without_them(make_exact, make_exact_learner, random_examples):
    model, examples = make_exact(), random_examples()
    before = TokenScorer(model, 0.8, 2**20)(as_rows(examples, "cpu")).logprobs.detach()
    learner = make_exact_learner(model, kl_coef=0.1, **LORA)
    assert learner.reference.is_policy_bare
    for _ in range(2):
        measured = learner.measure(examples)["reference_logprobs"]
        pairs = zip(examples, measured, strict=True)
        known = [TrainingExample(e.rollout, e.advantage, reference_logprobs=m) for e, m in pairs]
        metrics = update(learner, known)
    np.testing.assert_allclose(np.concatenate(measured), before.numpy(), atol=1e-12)
    assert metrics["kl_reference"] > 1e-4
    with adapters_off(model):
        pass
    assert all(w.requires_grad == ("lora_" in name) for name, w in model.named_parameters())


def test_a_trained_adapter_is_saved_as_a_plain_model(make_policy, make_exact_learner, random_examples, tmp_path):
    policy = make_policy()
    learner = make_exact_learner(policy.model, **LORA)
    update(learner, random_examples())
    save_policy(policy, tmp_path / "model", dict(learner.full_weights()))
    again = load_policy(ModelConfig(path=str(tmp_path / "model"))).model
    batch = as_rows(random_examples(), "cpu")
    found = TokenScorer(again, 0.8, 2**20)(batch).logprobs
    torch.testing.assert_close(found, learner.scorer(batch).logprobs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("lm_head", "'lm_head' is the embedding or the output layer; an engine is given full weights"),
        ("wte", "'wte' is the embedding or the output layer"),
        ("query", "no layer 'query'; this model has c_attn, c_fc, c_proj$"),
        ("ln_f", "'ln_f' is no linear layer"),
    ],
)
def test_layers_that_cannot_have_adapters_are_refused(make_exact, make_exact_learner, target, line):
    with pytest.raises(ValueError, match=line):
        make_exact_learner(make_exact(), lora_targets=(target,), **LORA)
