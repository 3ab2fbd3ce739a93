"""What several test files need: the built-in tokenizer and tiny models with random weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from sara.builtin.pretraining import PretrainingRecipe, build_model
from sara.builtin.tokenizer import build_tokenizer
from sara.models import Policy


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@pytest.fixture(scope="session")
def make_policy(tokenizer) -> Callable[..., Policy]:
    """Tiny policies; equal seeds give equal weights, and no two share a tensor."""

    def make(seed: int = 0, sharpness: float = 10.0) -> Policy:
        recipe = PretrainingRecipe(width=32, layers=2, heads=2, feed_forward=64, seed=seed)
        model: LlamaForCausalLM = build_model(recipe, tokenizer).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:  # fresh weights give almost the same distribution after any text
                    weight.mul_(sharpness)
        return Policy(tokenizer, recipe.context, model, (tokenizer.eos_token_id,))

    return make
