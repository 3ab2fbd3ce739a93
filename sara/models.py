"""Loads the policy: a causal language model with its tokenizer, from the package, a folder or the hub."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.logging import disable_progress_bar

from sara.builtin import WEIGHTS_DIR
from sara.config import ModelConfig
from sara.hub import is_hub_reachable

BUILTIN = "builtin"
_NO_LIMIT = 1 << 30  # a model whose configuration names no longest sequence
_UNREADABLE = (OSError, ValueError, TypeError, RuntimeError, SafetensorError)  # what a faulty folder makes it raise


@dataclass(frozen=True)
class Reader:
    """What turns text into token ids: the tokenizer, and `context`, the longest sequence in tokens of its model."""

    tokenizer: PreTrainedTokenizerBase
    context: int

    def within(self, max_model_len: int | None) -> Reader:
        """The same reader for an engine that takes no longer sequence than `max_model_len`, if that is set."""
        return self if max_model_len is None else replace(self, context=min(self.context, max_model_len))


@dataclass(frozen=True)
class Policy(Reader):
    """A reader with its model; `end_token_ids` end a completion."""

    model: PreTrainedModel
    end_token_ids: tuple[int, ...]


def load_policy(config: ModelConfig) -> Policy:
    """Load weights and tokenizer onto the configured device.

    Raises ValueError if the path is neither a model's folder nor a name that the hub (or its local cache) has, if
    the folder lacks weights of the model, or if this machine has no such device.
    """
    device = find_device(config.device)
    reader = load_reader(config)
    disable_progress_bar()  # a run loads its model several times; the bars would break into ours
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            **_source(config), dtype=getattr(torch, config.dtype), output_loading_info=True
        )
    except _UNREADABLE as error:
        raise ValueError(_not_found(config.path, error)) from error
    if report["missing_keys"]:  # transformers would go on with random numbers in their place
        first = min(report["missing_keys"])
        raise ValueError(
            f"model.path = {config.path!r}; the model lacks {len(report['missing_keys'])} weights: {first}"
        )
    model = model.to(device).eval()
    return Policy(reader.tokenizer, reader.context, model, _end_token_ids(model, reader.tokenizer))


def load_reader(config: ModelConfig) -> Reader:
    """Load the tokenizer and the context alone, without the weights; raises ValueError as `load_policy` does."""
    model_config = configuration_of(config)  # before the tokenizer, which says less of a folder that is no model's
    try:
        tokenizer = AutoTokenizer.from_pretrained(**_source(config))
    except _UNREADABLE as error:
        raise ValueError(_not_found(config.path, error)) from error
    return Reader(tokenizer, int(getattr(model_config, "max_position_embeddings", _NO_LIMIT)))


def configuration_of(config: ModelConfig) -> PretrainedConfig:
    """The model's configuration alone; raises ValueError as `load_policy` does."""
    try:
        return AutoConfig.from_pretrained(**_source(config))
    except _UNREADABLE as error:
        raise ValueError(_not_found(config.path, error)) from error


def without_weights(described: PretrainedConfig) -> PreTrainedModel:
    """The model that a configuration describes, without numbers in its weights: at no memory."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(described)


def structure_of(config: ModelConfig) -> PreTrainedModel:
    """The model without its weights; raises ValueError as `load_policy` does."""
    try:
        return without_weights(configuration_of(config))
    except _UNREADABLE as error:
        raise ValueError(_not_found(config.path, error)) from error


def is_local(config: ModelConfig) -> bool:
    """Whether the model is the built-in one or a folder here, so that no hub is needed."""
    return config.path == BUILTIN or Path(config.path).is_dir()


def save_policy(policy: Policy, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write weights (safetensors) and tokenizer so that `load_policy` reads them back.

    weights   what to write in place of the model's own, under the names of a plain model
    """
    disable_progress_bar()
    policy.model.save_pretrained(folder, state_dict=weights)
    policy.tokenizer.save_pretrained(folder)


def save_reader(policy: Policy, folder: Path) -> None:
    """Write all that `load_policy` reads but for the weights: configuration and tokenizer."""
    policy.model.config.save_pretrained(folder)
    if policy.model.generation_config is not None:
        policy.model.generation_config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def _source(config: ModelConfig) -> dict[str, Any]:
    """Arguments of `from_pretrained`: a folder or a name, the hub's cache alone where the hub does not answer."""
    if config.path == BUILTIN:
        return {"pretrained_model_name_or_path": WEIGHTS_DIR}
    is_cache_alone = not is_local(config) and not is_hub_reachable()
    return {"pretrained_model_name_or_path": config.path, "local_files_only": is_cache_alone}


def _not_found(path: str, error: Exception) -> str:
    if Path(path).is_dir():
        return f"model.path = {path!r}; the folder holds no model that transformers can read ({_in_one_line(error)})"
    return f"model.path = {path!r}; expected 'builtin', a model's folder, or a name that the hub has and can be reached"


def _in_one_line(error: Exception) -> str:
    """What it says first; up to the end of the sentence where that is spread over lines."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    is_whole = not lines[0].rstrip().endswith(":")
    return lines[0] if is_whole else textwrap.shorten(" ".join(lines), 200, placeholder=" ...")


def find_device(name: str) -> torch.device:
    """The device of that name; ValueError if this machine has none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    problem = f"model.device = {name!r}; expected 'auto', 'cpu', or a GPU that this machine has"
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"{problem} ({_in_one_line(error)})") from error
    if device.type == "meta":
        raise ValueError(f"{problem} (it holds no numbers)")
    return device


def _end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    declared = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = declared if isinstance(declared, list) else [declared]
    return tuple(sorted({i for i in [*ids, tokenizer.eos_token_id] if i is not None}))
