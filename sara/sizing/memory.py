"""How much memory a run takes and for what, from the shape of its model and its configuration.

Weights, gradients, optimizer and cache are counted exactly; activations are estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from sara.advantages import get_estimator
from sara.config import RunConfig
from sara.engines import choose_engine
from sara.sizing.shapes import ModelShape

FLOAT32 = 4
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


Phase = Literal["generating", "learning"]
PHASES: tuple[Phase, ...] = ("generating", "learning")
"""What a step does, one after the other: rollouts, then the update."""


@dataclass(frozen=True)
class MemoryItem:
    """What takes memory, how much in bytes, how that comes about, whether it is an estimate, and when it is there."""

    name: str
    size: int
    why: str
    is_estimate: bool = False
    phases: tuple[Phase, ...] = PHASES


def phase_totals(items: Sequence[MemoryItem]) -> dict[Phase, int]:
    """Bytes that are taken at once in each phase."""
    return {phase: sum(item.size for item in items if phase in item.phases) for phase in PHASES}


def memory_items(config: RunConfig, shape: ModelShape, prompt_tokens: int) -> list[MemoryItem]:
    """Everything large that one run holds at its peak, in one process or two.

    prompt_tokens   longest prompt
    """
    return [*_learner_items(config, shape), *_engine_items(config, shape, prompt_tokens)]


def _learner_items(config: RunConfig, shape: ModelShape) -> list[MemoryItem]:
    learner, width = config.learner, _BYTES[config.model.dtype]
    has_masters = width < FLOAT32 and (learner.master_weights or learner.float32_states)
    trained_width = FLOAT32 if has_masters else width
    count, trained = shape.parameters, shape.trained
    items = [MemoryItem("weights", count * width, f"{count:,} in {config.model.dtype}")]
    if has_masters:
        why = f"{trained:,} in float32" + ("" if learner.master_weights else ", for the length of a step")
        items.append(MemoryItem("master weights", trained * FLOAT32, why))
    items.append(MemoryItem("gradients", trained * trained_width, f"{trained:,} in {8 * trained_width} bits"))
    items.append(MemoryItem("optimizer", 2 * trained * trained_width, "AdamW: two moments of each trained weight"))
    if learner.kl_coef and (learner.reference is not None or not learner.lora_rank):
        items.append(MemoryItem("reference", count * width, "a second model, frozen"))
    if get_estimator(learner.advantage).needs_values and learner.value == "model":
        each = width + (FLOAT32 if has_masters else 0) + 3 * trained_width
        items.append(MemoryItem("value model", count * each, "weights, gradients and optimizer of its own"))
    why = "a piece of learner.logits_mib and its gradient"
    items.append(MemoryItem("logits", 2 * learner.logits_mib * 2**20, why, phases=("learning",)))
    items.append(_activations(config, shape, width))
    return items


def _activations(config: RunConfig, shape: ModelShape, width: int) -> MemoryItem:
    """What the backward pass keeps of a micro-batch: inputs and outputs of each layer's matrices, norms in float32."""
    tokens = config.learner.micro_batch_tokens
    matrices = 5 * shape.hidden + (shape.heads + 2 * shape.kv_heads) * shape.head_dim + 4 * shape.intermediate
    layer = width * matrices + FLOAT32 * 4 * shape.hidden
    if config.learner.gradient_checkpointing:
        size = tokens * (shape.layers * width * shape.hidden + layer)
        return MemoryItem("activations", size, f"{tokens:,} tokens, {_CHECKPOINTED}", True, ("learning",))
    return MemoryItem(
        "activations", tokens * shape.layers * layer, f"{tokens:,} tokens, every layer", True, ("learning",)
    )


_CHECKPOINTED = "each layer's input and one layer whole"


def _engine_items(config: RunConfig, shape: ModelShape, prompt_tokens: int) -> list[MemoryItem]:
    """The cache of keys and values, and the weights that an engine apart from the learner holds once more."""
    engine, items = config.engine, []
    longest = prompt_tokens + max(engine.max_new_tokens, config.evaluation.max_new_tokens or 0)
    width = _BYTES[config.model.dtype if engine.dtype == "auto" else engine.dtype]
    each = longest * width * shape.cached_per_token
    is_apart = engine_of(config) == "vllm"
    phases = PHASES if is_apart and engine.sleep_level == 0 else ("generating",)
    given_up = "" if phases == PHASES else ", given up while the learner works"
    if is_apart:
        why = f"a copy of its own{given_up}"
        items.append(MemoryItem("engine's weights", shape.parameters * width, why, phases=phases))
    if is_apart and engine.cache_gib is not None:
        size = int(engine.cache_gib * 2**30)
        why = f"engine.cache_gib: room for {size // each:,} sequences of {longest:,} tokens, more of shorter ones"
    else:
        size = engine.max_sequences * each
        why = f"at most, {engine.max_sequences:,} sequences of {longest:,} tokens"
    return [*items, MemoryItem("key-value cache", size, why + given_up, phases=phases)]


def engine_of(config: RunConfig) -> str:
    """The engine that a run would have on this machine."""
    has_gpu = config.model.device != "cpu" and torch.cuda.is_available()
    return choose_engine(config.engine.name, "cuda" if has_gpu else "cpu")


def gpu_memory_gib(config: RunConfig) -> float | None:
    """Memory of the GPU that a run would use on this machine, in GiB; None where there is none."""
    if config.model.device == "cpu" or not torch.cuda.is_available():
        return None
    device = "cuda" if config.model.device == "auto" else config.model.device
    return torch.cuda.get_device_properties(device).total_memory / 2**30
