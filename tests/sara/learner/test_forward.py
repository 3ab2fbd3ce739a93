"""Logits that a model changes after its output layer, and layers that are computed again."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
)

from sara.learner.forward import TokenScorer, recompute_layers
from sara.learner.micro_batches import as_rows

SIZES = {
    "vocab_size": 23,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
MODELS = {
    "soft cap": lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=0.5)),
    "scale": lambda: CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25)),
    "divisor": lambda: GraniteForCausalLM(GraniteConfig(**SIZES, logits_scaling=4.0)),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("piece_bytes", [2**20, 3 * 4 * 23])
def test_models_that_scale_or_cap_their_logits_are_scored_as_they_score_themselves(random_examples, kind, piece_bytes):
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(50)
    batch = as_rows(random_examples(4), "cpu")
    scores = TokenScorer(model, 0.8, piece_bytes)(batch)
    logits = model(input_ids=batch.input_ids).logits.flatten(0, 1)[batch.predictors]
    expected = torch.log_softmax(logits / 0.8, dim=-1).gather(1, batch.targets[:, None])[:, 0]
    torch.testing.assert_close(scores.logprobs, expected, atol=2e-5, rtol=1e-4)
    raw = torch.log_softmax(model.get_output_embeddings()(scores.hidden) / 0.8, dim=-1)
    assert (raw.gather(1, batch.targets[:, None])[:, 0] - expected).abs().max() > 0.05  # the change does matter


def test_a_model_that_changes_its_logits_in_another_way_is_refused(make_exact):
    model = make_exact()
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * 1.7)
    with pytest.raises(ValueError, match="GPT2LMHeadModel changes its logits in a way that the learner does not know"):
        TokenScorer(model, 1.0, 2**20)


def test_recomputed_layers_keep_dropout_out_and_leave_generation_alone(make_exact, random_examples):
    model = make_exact(resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    batch = as_rows(random_examples(4), "cpu")
    before = TokenScorer(model, 0.8, 2**20)(batch).logprobs
    recompute_layers(model)
    after = TokenScorer(model, 0.8, 2**20)(batch).logprobs
    assert torch.equal(before, after) and not model.training
    with torch.no_grad():
        assert torch.equal(TokenScorer(model, 0.8, 2**20)(batch).logprobs, before)


def test_recomputed_layers_keep_less_for_the_backward_pass(make_exact, random_examples):
    batch, kept = as_rows(random_examples(4), "cpu"), {}
    for is_recomputed in (False, True):
        model, total = make_exact(n_layer=4), 0
        scorer = TokenScorer(model, 0.8, 2**20)
        if is_recomputed:
            recompute_layers(model)

        def count(tensor):
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            scorer(batch)
        kept[is_recomputed] = total
    assert kept[True] < 0.5 * kept[False]


def test_a_model_without_layers_to_recompute_is_refused():
    with pytest.raises(ValueError, match="gradient_checkpointing: Linear has no layers"):
        recompute_layers(nn.Linear(2, 2))
