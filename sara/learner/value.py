"""Value functions: the return that is to be expected before each trained token. One contract, two members."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sara.learner.forward import decode, recompute_layers
from sara.learner.micro_batches import MicroBatch


class ValueFunction(nn.Module):
    """Gives the value (M,) float32 before each trained token of a micro-batch."""

    def forward(self, batch: MicroBatch, hidden: Tensor) -> Tensor:
        """`hidden` (M, H): the policy's last hidden states there."""
        raise NotImplementedError


class ValueHead(ValueFunction):
    """A linear layer on the policy's hidden states. Its loss never moves the policy: the states come detached."""

    def __init__(self, model: PreTrainedModel, is_recomputed: bool = False) -> None:
        super().__init__()
        self.head = _linear(model)

    def forward(self, batch: MicroBatch, hidden: Tensor) -> Tensor:
        return self.head(hidden.detach().to(self.head.weight.dtype))[:, 0]


class ValueModel(ValueFunction):
    """A model of its own, which starts as a copy of the policy's decoder: twice the weights, nothing shared."""

    def __init__(self, model: PreTrainedModel, is_recomputed: bool = False) -> None:
        super().__init__()
        self.model = copy.deepcopy(model)
        self.model.get_output_embeddings().weight.requires_grad_(
            self.model.get_output_embeddings().weight is self.model.get_input_embeddings().weight
        )  # an output layer of its own is never used
        self.head = _linear(model)
        if is_recomputed:
            recompute_layers(self.model)

    def forward(self, batch: MicroBatch, hidden: Tensor) -> Tensor:
        return self.head(decode(self.model, batch).to(self.head.weight.dtype))[:, 0]


VALUE_FUNCTIONS: dict[str, Callable[..., ValueFunction]] = {"head": ValueHead, "model": ValueModel}


def _linear(model: PreTrainedModel) -> nn.Linear:
    """Zero at first, so that nothing is expected before anything was seen."""
    size = model.get_output_embeddings().in_features
    dtype = torch.float64 if model.dtype == torch.float64 else torch.float32
    head = nn.Linear(size, 1, device=model.device, dtype=dtype)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head
