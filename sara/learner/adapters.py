"""LoRA through peft: small trained matrices beside frozen weights, and how both are handed on as plain weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

_ADAPTER = "default"
_LINEAR = (nn.Linear, Conv1D)


def add_adapters(model: PreTrainedModel, rank: int, alpha: float, targets: Sequence[str], seed: int = 0) -> None:
    """Freeze the model and put adapters of this rank beside its linear layers, in place.

    targets   names of layers, or of their last parts; empty: every linear layer but the output head
    seed      of the adapters' first matrices; the second ones are 0, so that the model starts as it was

    Raises ValueError as `require_adaptable` does.
    """
    require_adaptable(model, targets)
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=list(targets) or "all-linear", bias="none"
    )
    with torch.random.fork_rng(devices=[]):  # peft draws from torch's global generator
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model, adapter_name=_ADAPTER)
    for name, weight in model.named_parameters():
        weight.requires_grad_("lora_" in name)


def require_adaptable(model: PreTrainedModel, targets: Sequence[str]) -> None:
    """Refuse adapters that cannot be had; looks at the model's structure, not at its weights.

    Raises ValueError if peft is missing, if no layer has such a name or one that has is not linear, or if one is the
    embedding or the output layer: engines take over full weights, and of tied ones there is a single tensor for two
    layers that would differ.
    """
    if find_spec("peft") is None:
        raise ValueError(
            "learner.lora_rank is set, but peft is not installed; install the extra: pip install 'sara-rl[lora]'"
        )
    modules = dict(model.named_modules())
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    able = {name.rsplit(".", 1)[-1] for name, m in modules.items() if isinstance(m, _LINEAR) and m is not ends[1]}
    for target in targets:
        found = [module for name, module in modules.items() if name == target or name.endswith(f".{target}")]
        if any(module is end for module in found for end in ends):
            raise ValueError(
                f"learner.lora_targets: {target!r} is the embedding or the output layer; an engine is given full "
                "weights, where the two may be one tensor: expected layers inside the decoder"
            )
        if not found or not all(isinstance(module, _LINEAR) for module in found):
            what = f"{target!r} is no linear layer" if found else f"no layer {target!r}"
            raise ValueError(f"learner.lora_targets: {what}; this model has {', '.join(sorted(able))}")


def has_adapters(model: nn.Module) -> bool:
    return any("lora_" in name for name, _ in model.named_parameters())


@torch.no_grad()
def full_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every weight under the name that it has without adapters, these added in: what an engine or a file takes over.

    One merged tensor exists at a time. The sum is rounded to the type of the weights.
    """
    modules = dict(model.named_modules())
    for name, weight in model.named_parameters():
        if "lora_" in name:
            continue
        if ".base_layer." in name and name.endswith(".weight"):
            layer = modules[name.removesuffix(".base_layer.weight")]
            weight = (weight.float() + layer.get_delta_weight(_ADAPTER).float()).to(weight.dtype)
        yield name.replace(".base_layer.", "."), weight


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The model as it was before training."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
            for name, weight in layer.named_parameters():
                weight.requires_grad_("lora_" in name)
