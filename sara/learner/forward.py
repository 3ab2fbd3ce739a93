"""The forward pass of the learner: from micro-batches to hidden states and log-probabilities of trained tokens.

Owns how the decoder and the output layer of a transformers model are told apart, and the check that the two
together give what the model itself gives.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from sara.engines.kv_cache import cache_argument
from sara.learner.micro_batches import MicroBatch
from sara.learner.token_logprobs import OutputLayer, token_logprobs

_BLOCK_SPARSE = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention")
_PROBE = (2, 3, 5, 7)


class TokenScores(NamedTuple):
    """Of M trained tokens: log-probability (M,), entropy of the distribution (M,) and hidden state before it (M, H)."""

    logprobs: Tensor
    entropy: Tensor
    hidden: Tensor


class TokenScorer:
    """Scores trained tokens under a causal language model.

    temperature   the sampling temperature: log-probabilities are taken under it, as the engine's are
    piece_bytes   largest piece of float32 logits held at once

    Raises ValueError for a model whose logits are not its output layer's, scaled or softly capped.
    """

    def __init__(self, model: PreTrainedModel, temperature: float, piece_bytes: int) -> None:
        self.model = model
        self.temperature = temperature
        self.piece_bytes = piece_bytes
        self.scale, self.cap = _find_logit_transform(model)

    def __call__(self, batch: MicroBatch) -> TokenScores:
        hidden = self.hidden(batch)
        logprobs, entropy = token_logprobs(hidden, batch.targets, self._output_layer(), self.piece_bytes)
        return TokenScores(logprobs, entropy, hidden)

    def hidden(self, batch: MicroBatch) -> Tensor:
        """Last hidden state (M, H) before each trained token: logits are made of these alone, not of every position."""
        return decode(self.model, batch)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def is_block_sparse(self) -> bool:
        """Whether attention over rollouts laid end to end costs no more than over each alone."""
        return self.model.config._attn_implementation in _BLOCK_SPARSE

    def _output_layer(self) -> OutputLayer:
        head = self.model.get_output_embeddings()
        return OutputLayer(head.weight, head.bias, self.scale, self.cap, self.temperature)


def decode(model: PreTrainedModel, batch: MicroBatch) -> Tensor:
    """Last hidden states (M, H) of a model at the places that predict the trained tokens."""
    cache = {} if batch.cache is None else {cache_argument(model): batch.cache}
    states = model.base_model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=batch.positions,
        use_cache=batch.cache is not None,
        **cache,
    ).last_hidden_state.flatten(0, 1)  # (N * L, H)
    if batch.ends is not None:
        states = torch.cat([batch.ends, states])
    return states.index_select(0, batch.predictors)


def recompute_layers(model: PreTrainedModel) -> None:
    """Keep no activations inside a layer for the backward pass: compute each layer again there.

    The library's own switch works in training mode alone, which would let dropout in.
    """
    for layer in recomputable_layers(model):
        layer.forward = _recomputed(layer.forward)


def recomputable_layers(model: PreTrainedModel) -> list[nn.Module]:
    """Raises ValueError if there are none; looks at the model's structure, not at its weights."""
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"learner.gradient_checkpointing: {type(model).__name__} has no layers that can be recomputed")
    return layers


def _recomputed(forward):
    def run(*args, **kwargs):
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run


@torch.no_grad()
def _find_logit_transform(model: PreTrainedModel) -> tuple[float, float | None]:
    """Scale and soft cap by the configuration, tried out on a few tokens."""
    head, config = model.get_output_embeddings(), model.config.get_text_config()
    if not isinstance(head, nn.Linear):
        raise ValueError(f"model: {type(model).__name__} ends in {type(head).__name__}; expected a linear output layer")
    scale = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", None) or 1.0)
    cap = getattr(config, "final_logit_softcapping", None)
    input_ids = torch.tensor([_PROBE], device=model.device) % len(head.weight)
    expected = model(input_ids=input_ids, use_cache=False).logits.float()
    hidden = model.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
    found = OutputLayer(head.weight, head.bias, scale, cap, 1.0).logits(hidden).float()
    tolerance = 1e-3 if head.weight.dtype.itemsize >= 4 else 3e-2
    if expected.shape != found.shape or not torch.allclose(found, expected, rtol=tolerance, atol=tolerance):
        raise ValueError(
            f"model: {type(model).__name__} changes its logits in a way that the learner does not know; "
            "expected those of its output layer, scaled or softly capped"
        )
    return scale, cap
