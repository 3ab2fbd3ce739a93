"""The shape of a model without its weights: from its configuration, or of well-known ones from their public facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig, PreTrainedModel

from sara.config import RunConfig
from sara.models import configuration_of, without_weights

_QWEN2 = {"model_type": "qwen2", "vocab_size": 151936, "num_key_value_heads": 2}
KNOWN: dict[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-0.5B": _QWEN2
    | {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen2.5-3B": _QWEN2
    | {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _QWEN2
    | {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    },
    "HuggingFaceTB/SmolLM2-135M": {
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
}
"""Published configurations, by name on the hub: a plan can be made where the hub is out of reach."""


@dataclass(frozen=True)
class ModelShape:
    """What decides a model's memory.

    parameters       weights, shared ones once
    trained          those that get gradients: all of them, or LoRA's adapters
    layers, hidden   of the decoder
    heads, kv_heads, head_dim   of its attention
    intermediate     width of the feed-forward layers
    context          longest sequence in tokens
    source           where the shape is from, in words
    """

    name: str
    parameters: int
    trained: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    source: str

    @property
    def cached_per_token(self) -> int:
        """Numbers that the cache keeps of one token: keys and values in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def find_shape(config: RunConfig) -> ModelShape:
    """The shape of `model.path`; raises ValueError if it is no model's folder, unknown, and not on a hub in reach."""
    name = config.model.path
    known = next((key for key in KNOWN if key.casefold() == name.casefold()), None)
    if known is not None:
        described, source = AutoConfig.for_model(**KNOWN[known]), "its published configuration"
    else:
        described, source = configuration_of(config.model), "its configuration"
    model = without_weights(described)
    parameters = _count(model)
    if config.learner.lora_rank:
        from sara.learner.adapters import add_adapters

        learner = config.learner
        add_adapters(model, learner.lora_rank, learner.lora_alpha, learner.lora_targets)
    heads = described.num_attention_heads
    return ModelShape(
        name=name,
        parameters=parameters,
        trained=_count(model, only_trained=True),
        layers=described.num_hidden_layers,
        hidden=described.hidden_size,
        heads=heads,
        kv_heads=getattr(described, "num_key_value_heads", None) or heads,
        head_dim=getattr(described, "head_dim", None) or described.hidden_size // heads,
        intermediate=described.intermediate_size,
        vocab=described.vocab_size,
        context=described.max_position_embeddings,
        source=source,
    )


def _count(model: PreTrainedModel, only_trained: bool = False) -> int:
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad or not only_trained)
