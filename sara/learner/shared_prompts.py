"""Prompts that go through the model once for all rollouts of their group, which go on from their keys and values.

Owns the states of an update's prompts and how gradients get back through them. Exact: attention looks back alone, so
a prompt's states do not depend on what follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from sara.engines.kv_cache import cache_argument

_LEAST_SAVING = 0.1
"""Share of an update's tokens that must be saved: going on from a prompt has a price of its own (docs/learner.md)."""


def can_share(model: PreTrainedModel) -> bool:
    """Whether the model's rollouts can go on from a prompt: every layer attends, to all that came before.

    Not in narrow types, in which the gradients of a prompt's rollouts would add up.
    """
    layers = DynamicCache(config=model.config.get_text_config()).layers
    is_plain = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
    is_masked = model.config._attn_implementation in ("sdpa", "eager")  # others take no mask with a gap in it
    return is_plain and is_masked and model.dtype.itemsize >= 4 and not getattr(model, "_is_stateful", False)


def sharing_pays(prompts: Sequence[tuple[int, ...]], response_tokens: int, max_tokens: int) -> bool:
    """Whether sharing saves enough of an update's tokens, and the different prompts fit in one micro-batch.

    prompts           of each rollout
    response_tokens   of all rollouts together
    max_tokens        padded tokens of a micro-batch
    """
    tokens, different = sum(map(len, prompts)), set(prompts)
    saved = tokens - sum(map(len, different))
    is_small = len(different) * max(map(len, different), default=0) <= max_tokens
    return is_small and 0 < saved >= _LEAST_SAVING * (tokens + response_tokens)


class SharedPrompts:
    """The states of U different prompts, the longest of L tokens.

    lengths   (U,) tokens of each
    ends      (U, H) last hidden state of each, which predicts the first token of a response

    Micro-batches leave their gradients at copies of the states; `backward` takes the sum on into the model, once.
    """

    def __init__(self, model: PreTrainedModel, prompts: Sequence[tuple[int, ...]]) -> None:
        self._places = {prompt: place for place, prompt in enumerate(prompts)}
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=model.device)
        ids = torch.zeros((len(prompts), int(self.lengths.max())), dtype=torch.int64)  # padded on the right
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        cache = DynamicCache(config=model.config.get_text_config())
        states = model.base_model(
            input_ids=ids.to(model.device), use_cache=True, **{cache_argument(model): cache}
        ).last_hidden_state  # (U, L, H)
        rows = torch.arange(len(prompts), device=model.device)
        self._made = [states[rows, self.lengths - 1]]
        self._made += [states for layer in cache.layers for states in (layer.keys, layer.values)]
        self._copies = [states.detach().requires_grad_(states.requires_grad) for states in self._made]
        self.ends = self._copies[0]

    def places(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """(N,) which of the U prompts each of these is."""
        return torch.tensor([self._places[prompt] for prompt in prompts], device=self.lengths.device)

    def cache(self, places: Tensor) -> tuple[Cache, Tensor]:
        """Keys and values for rows that go on from these prompts (N,), and where they are not padding, (N, L)."""
        longest = int(self.lengths[places].max())
        cache = DynamicCache()
        for layer in range((len(self._copies) - 1) // 2):
            keys, values = (
                states.index_select(0, places)[:, :, :longest] for states in self._copies[2 * layer + 1 : 2 * layer + 3]
            )
            cache.update(keys, values, layer)
        is_prompt = torch.arange(longest, device=places.device) < self.lengths[places][:, None]
        return cache, is_prompt

    def backward(self) -> None:
        """From the gradients of all micro-batches at the states to those of the weights."""
        pairs = [
            (made, copy.grad) for made, copy in zip(self._made, self._copies, strict=True) if copy.grad is not None
        ]
        if pairs:
            torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
