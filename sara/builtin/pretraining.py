"""Makes the built-in model: next-word training of a small Llama on Countdown search traces.

Owns the recipe. The responses alone are trained on; the prompt is context.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sara.builtin.traces import TraceRecipe, draw_trace

IGNORED = -100
_BATCHES_SORTED_TOGETHER = 16


@dataclass(frozen=True)
class PretrainingRecipe:
    """Everything that decides the weights (with the versions of torch and transformers).

    traces           how problems and traces are drawn
    batches          optimizer updates
    batch_size       traces in an update
    learning_rate    peak of a cosine with a linear warm-up over the first 5%
    """

    traces: TraceRecipe = field(default_factory=lambda: TraceRecipe(sizes={2: 0.3, 3: 0.45, 4: 0.1, 5: 0.15}))
    batches: int = 1200
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    seed: int = 0
    width: int = 128
    layers: int = 3
    heads: int = 4
    feed_forward: int = 384
    context: int = 512


def build_model(recipe: PretrainingRecipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """An untrained model of the recipe's shape, seeded by the recipe."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        intermediate_size=recipe.feed_forward,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):  # transformers draws the weights from torch's global generator
        torch.manual_seed(recipe.seed)
        return LlamaForCausalLM(config)


def pretrain(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: PretrainingRecipe) -> Iterator[float]:
    """Train in place, one update for each value taken; yields the mean loss of each update in nats a token."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=recipe.learning_rate,
        total_steps=recipe.batches,
        pct_start=0.05,
        anneal_strategy="cos",
    )
    model.train()
    batches = trace_batches(tokenizer, recipe)
    for _ in range(recipe.batches):
        input_ids, labels = next(batches)
        loss = model(input_ids=input_ids, labels=labels).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield float(loss.detach())
    model.eval()


def trace_batches(tokenizer: PreTrainedTokenizerFast, recipe: PretrainingRecipe) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (input_ids, labels), each (batch_size, T) int64, right-padded; labels are IGNORED off the response."""
    rng = random.Random(f"traces/{recipe.seed}")
    while True:
        pool = [_encode(tokenizer, *draw_trace(rng, recipe.traces)) for _ in range(_pool_size(recipe))]
        pool.sort(key=lambda pair: len(pair[0]))  # batches of like length waste little padding
        starts = list(range(0, len(pool), recipe.batch_size))
        rng.shuffle(starts)
        for start in starts:
            yield _pad(pool[start : start + recipe.batch_size], tokenizer.pad_token_id)


def _pool_size(recipe: PretrainingRecipe) -> int:
    return recipe.batch_size * _BATCHES_SORTED_TOGETHER


def _encode(tokenizer: PreTrainedTokenizerFast, prompt: str, response: str) -> tuple[list[int], list[int]]:
    prompt_ids = tokenizer(prompt)["input_ids"]
    response_ids = [*tokenizer(response)["input_ids"], tokenizer.eos_token_id]
    return prompt_ids + response_ids, [IGNORED] * len(prompt_ids) + response_ids


def _pad(pairs: list[tuple[list[int], list[int]]], pad_id: int) -> tuple[Tensor, Tensor]:
    length = max(len(ids) for ids, _ in pairs)
    input_ids = [ids + [pad_id] * (length - len(ids)) for ids, _ in pairs]
    labels = [label + [IGNORED] * (length - len(label)) for _, label in pairs]
    return torch.tensor(input_ids), torch.tensor(labels)
