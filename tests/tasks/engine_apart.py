"""The Hugging Face engine in a process of its own, as vLLM lives: for a supervisor, with weights of its own."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from sara.config import ModelConfig
from sara.engines.base import Engine
from sara.engines.huggingface import HuggingFaceEngine
from sara.models import load_policy


class EngineApart(HuggingFaceEngine):
    """Copies the weights of each sync into its model."""

    def __init__(self, weights: Iterable[tuple[str, Tensor]]):
        torch.set_num_threads(1)
        policy = load_policy(ModelConfig())
        super().__init__(policy.model, policy.end_token_ids, max_sequences=512)
        self.own = policy.model
        self._take(weights)

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        self._take(named_weights)
        super().sync_weights(named_weights)

    def _take(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        self.own.load_state_dict(dict(weights), strict=False)


def build(weights: Iterable[tuple[str, Tensor]]) -> Engine:
    return EngineApart(weights)
