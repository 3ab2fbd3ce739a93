"""Engines: what turns prompts into completions. One contract, `sara.engines.base`; one file for each member."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

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
    """The configured engine over the policy; to be closed. Raises ValueError if it cannot be had."""
    name = choose_engine(policy) if config.name == "auto" else config.name
    return ENGINES[name](config, policy)


def choose_engine(policy: Policy) -> Literal["vllm", "hf"]:
    """What 'auto' stands for: vLLM where it is installed and its build suits the device of the policy."""
    return "hf"
