from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import torch

from sara.builtin.pretraining import IGNORED, PretrainingRecipe, build_model, pretrain, trace_batches

RECIPE = PretrainingRecipe(width=32, layers=2, heads=2, feed_forward=64, batches=40, batch_size=16)


def weights(recipe: PretrainingRecipe, tokenizer, updates: int) -> dict[str, torch.Tensor]:
    model = build_model(recipe, tokenizer)
    list(islice(pretrain(model, tokenizer, recipe), updates))
    return model.state_dict()


def test_pretraining_lowers_the_loss(tokenizer):
    model = build_model(RECIPE, tokenizer)
    losses = list(pretrain(model, tokenizer, RECIPE))
    assert len(losses) == 40
    # An untrained model is close to uniform over 132 words: ln 132 = 4.883.
    assert losses[0] == pytest.approx(4.883, abs=0.1)
    assert sum(losses[-5:]) / 5 < 3.8
    assert not model.training


def test_the_same_recipe_makes_the_same_weights_bit_for_bit(tokenizer):
    torch.manual_seed(1)
    first = weights(RECIPE, tokenizer, updates=3)
    torch.manual_seed(2)
    again = weights(RECIPE, tokenizer, updates=3)
    assert all(torch.equal(first[name], again[name]) for name in first)
    other = weights(replace(RECIPE, seed=1), tokenizer, updates=3)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_building_a_model_leaves_the_global_generator_alone(tokenizer):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build_model(RECIPE, tokenizer)
    assert torch.equal(torch.rand(3), expected)


def test_only_the_response_is_trained_on_its_end_token_included(tokenizer):
    for input_ids, labels in islice(trace_batches(tokenizer, RECIPE), 16):
        assert input_ids.shape == labels.shape and len(input_ids) == RECIPE.batch_size
        for ids, label in zip(input_ids, labels, strict=True):
            trained = torch.nonzero(label != IGNORED)[:, 0]
            start, end = int(trained[0]), int(trained[-1]) + 1
            assert torch.equal(label[start:end], ids[start:end])  # no hole inside, no shift: the model shifts
            prompt = tokenizer.decode(ids[:start])
            assert prompt.startswith("Use ") and prompt.endswith("<answer> expression </answer> .")
            response = tokenizer.decode(ids[start:end])
            assert response.endswith("</answer> <eos>") and response.count("<answer>") == 1
            assert (ids[end:] == tokenizer.pad_token_id).all()


def test_the_loss_is_the_mean_over_the_tokens_of_the_responses(tokenizer):
    model = build_model(RECIPE, tokenizer)
    input_ids, labels = next(trace_batches(tokenizer, RECIPE))
    with torch.no_grad():
        log_distribution = torch.log_softmax(model(input_ids=input_ids).logits.double(), dim=-1)
    total, count = 0.0, 0
    for row in range(len(input_ids)):
        for position in range(1, input_ids.shape[1]):
            if labels[row, position] != IGNORED:
                total -= float(log_distribution[row, position - 1, input_ids[row, position]])
                count += 1
    assert next(pretrain(model, tokenizer, RECIPE)) == pytest.approx(total / count, abs=1e-5)
