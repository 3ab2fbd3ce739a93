"""Makes the learner of a run, and refuses before anything is drawn what could not be trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from transformers import PreTrainedModel

from sara.config import RunConfig
from sara.engines.base import Engine
from sara.learner.adapters import require_adaptable
from sara.learner.forward import recomputable_layers
from sara.learner.learner import Learner
from sara.models import Policy, Reader, load_policy, load_reader, structure_of
from sara.rollouts import PromptPool


def make_learner(config: RunConfig, policy: Policy, engine: Engine, pool: PromptPool) -> Learner:
    """The learner of one run over the policy, in place.

    Raises ValueError for a micro-batch that the longest rollout does not fit in, a reference with another
    vocabulary, and whatever `Learner` refuses.
    """
    require_room(config, pool.prompt_ids)
    is_gap_zero = engine.shares_model and policy.model.dtype == torch.float32
    return Learner(
        policy.model,
        config.learner,
        config.engine.temperature,
        total_steps=config.training.steps,
        max_new_tokens=config.engine.max_new_tokens,
        reference_model=_load_reference(config, policy),
        corrects_gap=not is_gap_zero,
    )


def require_trainable(config: RunConfig, model: PreTrainedModel | None = None) -> None:
    """Refuse adapters that the model cannot have, and layers that cannot be recomputed.

    model   the one that `config.model` names; None: its structure is looked at, and no weights are read
    """
    learner = config.learner
    if not (learner.lora_rank or learner.gradient_checkpointing):
        return
    model = structure_of(config.model) if model is None else model
    if learner.lora_rank:
        require_adaptable(model, learner.lora_targets)
    if learner.gradient_checkpointing:
        recomputable_layers(model)


def require_room(config: RunConfig, prompt_ids: Iterable[Sequence[int]]) -> None:
    """Refuse a token budget smaller than the longest sequence that may be drawn."""
    longest = max(map(len, prompt_ids)) + config.engine.max_new_tokens
    if config.learner.micro_batch_tokens < longest:
        raise ValueError(
            f"learner.micro_batch_tokens = {config.learner.micro_batch_tokens}; expected at least {longest}, "
            "the longest prompt and engine.max_new_tokens together"
        )


def require_same_vocabulary(config: RunConfig, reader: Reader) -> None:
    """Refuse a reference whose tokens are other ones; reads its tokenizer alone."""
    path = config.learner.reference
    if path is None:
        return
    try:
        other = load_reader(config.model.model_copy(update={"path": path}))
    except ValueError as error:
        raise ValueError(str(error).replace("model.path", "learner.reference", 1)) from error
    if other.tokenizer.get_vocab() != reader.tokenizer.get_vocab():
        raise ValueError(
            f"learner.reference = {path!r}; its vocabulary is not that of model.path = {config.model.path!r}: "
            "expected a model with the same tokenizer"
        )


def _load_reference(config: RunConfig, policy: Policy) -> PreTrainedModel | None:
    if config.learner.reference is None:
        return None
    require_same_vocabulary(config, policy)
    return load_policy(config.model.model_copy(update={"path": config.learner.reference})).model
