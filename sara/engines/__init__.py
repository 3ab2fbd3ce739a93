"""Engines: what turns prompts into completions. One contract, `sara.engines.base`; one file for each member."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sara.engines.base import Engine

if TYPE_CHECKING:
    from sara.config import EngineConfig
    from sara.models import Policy


def _make_huggingface(config: EngineConfig, policy: Policy) -> Engine:
    from sara.engines.huggingface import HuggingFaceEngine

    return HuggingFaceEngine(policy.model, policy.end_token_ids, config.max_sequences)


ENGINES: dict[str, Callable[[EngineConfig, Policy], Engine]] = {"hf": _make_huggingface}
"""Name in `engine.name` -> maker. A maker imports its engine, so that one need not be installed to use another."""


def make_engine(config: EngineConfig, policy: Policy) -> Engine:
    """The configured engine over the policy."""
    return ENGINES[config.name](config, policy)
