"""The outline of a run: its problems, rollouts, batches and memory, and what could not be checked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sara.config import AUTO, RunConfig
from sara.datasets import DATASETS, HUB, Side, load_apart, load_side
from sara.datasets.base import Split
from sara.engines import require_engine
from sara.evaluation import evaluation_sampling
from sara.hub import is_hub_reachable
from sara.models import is_local, load_reader
from sara.preparation import prepare_problems
from sara.sizing.memory import MemoryItem, memory_items, phase_totals
from sara.sizing.shapes import ModelShape, find_shape
from sara.strategies import get_strategy

DEFAULT_PROMPT_TOKENS = 1024
"""Taken for the longest prompt where neither the data nor the configuration says it."""


@dataclass(frozen=True)
class Outline:
    """What one run will do and need.

    shape       of the model
    problems    side -> how many problems, None where they cannot be read here
    prompt      longest prompt in tokens, as configured or as assumed
    rollouts    of a step: (fewest that a full batch takes, most that the strategy may draw)
    updates     optimizer updates of a step
    groups      of each update
    evaluations how many evaluations, and rollouts of each (None where its problems cannot be counted)
    memory      what takes memory
    notes       what was left out of the data, and what could not be checked here
    """

    config: RunConfig
    shape: ModelShape
    problems: dict[str, int | None]
    prompt: int
    rollouts: tuple[int, int]
    updates: int
    groups: float
    evaluations: tuple[int, int | None]
    memory: list[MemoryItem]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """The same figures for machines."""
        config, training = self.config, self.config.training
        low, high = self.rollouts
        return {
            "name": config.name,
            "strategy": config.strategy,
            "algorithm": config.learner.advantage,
            "model": {"path": config.model.path, "parameters": self.shape.parameters, "trained": self.shape.trained},
            "problems": self.problems,
            "steps": training.steps,
            "rollouts_per_step": {"fewest": low, "most": high},
            "rollouts": {"fewest": low * training.steps, "most": high * training.steps},
            "tokens_per_step_most": high * config.engine.max_new_tokens,
            "updates_per_step": self.updates,
            "groups_per_update": self.groups,
            "rollouts_per_update": self.groups * config.allocation.k,
            "updates": self.updates * training.steps,
            "evaluations": {"count": self.evaluations[0], "rollouts_each": self.evaluations[1]},
            "memory_bytes": {item.name: item.size for item in self.memory},
            "memory_phase_bytes": phase_totals(self.memory),
            "memory_total_bytes": sum(item.size for item in self.memory),
            "notes": self.notes,
        }


def outline(config: RunConfig) -> Outline:
    """The outline of a run; raises ValueError for whatever would stop the run that can be seen from here."""
    shape = find_shape(config)
    _require_context(config, shape)
    sides, notes = _read_sides(config)
    notes += _engine_notes(config)
    problems = {name: None if side is None else len(side.problems) for name, side in sides.items()}
    notes += [f"data.{name}: {side.summary()}" for name, side in sides.items() if side is not None and side.left_out]
    prompt = config.prompt.max_tokens or DEFAULT_PROMPT_TOKENS
    updates = config.learner.updates_per_step * config.learner.epochs
    heldout = problems["heldout"]
    return Outline(
        config=config,
        shape=shape,
        problems=problems,
        prompt=min(prompt, shape.context),
        rollouts=_rollouts(config, problems["train"]),
        updates=updates,
        groups=config.allocation.groups_per_step / config.learner.updates_per_step,
        evaluations=(_count_evaluations(config), None if heldout is None else heldout * config.evaluation.k),
        memory=memory_items(config, shape, min(prompt, shape.context)),
        notes=notes,
    )


def _engine_notes(config: RunConfig) -> list[str]:
    """The machine that trains need not be this one, so an engine that is missing here is said and not refused."""
    try:
        require_engine(config.engine)
    except ValueError as error:
        return [f"on this machine: {error}"]
    return []


def _require_context(config: RunConfig, shape: ModelShape) -> None:
    prompt, limit = config.prompt.max_tokens or 1, shape.context
    where = f"the context of {shape.name}"
    if config.engine.max_model_len is not None and config.engine.max_model_len < limit:
        limit, where = config.engine.max_model_len, "engine.max_model_len"
    for setting, longest in (
        ("engine.max_new_tokens", config.engine.max_new_tokens),
        ("evaluation.max_new_tokens", evaluation_sampling(config).max_new_tokens),
    ):
        if prompt + longest > limit:
            raise ValueError(
                f"{setting} = {longest} with prompts of up to {prompt} tokens; "
                f"expected at most {limit} together, {where}"
            )
    room, longest = config.learner.micro_batch_tokens, prompt + config.engine.max_new_tokens
    if room < longest:
        raise ValueError(
            f"learner.micro_batch_tokens = {room}; expected at least {longest}, the longest prompt and "
            "engine.max_new_tokens together"
        )


def _read_sides(config: RunConfig) -> tuple[dict[str, Side | None], list[str]]:
    """The problems of both sides as a run would use them; None where they are on a hub that cannot be reached."""
    needs_hub: dict[str, bool] = {
        split: getattr(config.data, f"{split}_path") is None and DATASETS[getattr(config.data, split)].generate is None
        for split in ("train", "heldout")
    }
    has_reader = is_local(config.model)
    needs_hub["apart_from"] = any(
        file == HUB and DATASETS[name].generate is None for name, file in config.data.apart_from.items()
    )
    is_online = (any(needs_hub.values()) or not has_reader) and is_hub_reachable()
    notes = [] if is_online or has_reader else [f"{config.model.path}: prompts not checked, the hub is out of reach"]
    if is_online or (has_reader and not any(needs_hub.values())):
        reader = load_reader(config.model).within(config.engine.max_model_len)
        return dict(prepare_problems(config, reader).sides), notes
    sides = {split: _read(config, split, is_online or not needs_hub[split], notes) for split in ("train", "heldout")}
    if sides["train"] is not None and sides["heldout"] is not None and HUB not in config.data.apart_from.values():
        sides["train"] = load_apart(config.data, sides["heldout"].problems)
    return sides, notes


def _read(config: RunConfig, split: Split, can_be_read: bool, notes: list[str]) -> Side | None:
    if can_be_read:
        return load_side(config.data, split)
    name = getattr(config.data, split)
    notes.append(f"data.{split} = {name!r}: not read, the hub is out of reach; data.{split}_path names a file instead")
    return None


def _rollouts(config: RunConfig, pool: int | None) -> tuple[int, int]:
    """(fewest, most) of a step, redraws apart.

    A fixed allocation always draws a batch. The others draw that if every group that they open is mixed, or less where
    a group is committed before it has k, and otherwise more, up to the cap and to what the pool of prompts holds.
    """
    allocation, allocator = config.allocation, get_strategy(config.strategy).allocator
    cap = allocation.rollout_cap if pool is None else min(allocation.rollout_cap, pool * allocation.k)
    batch = min(allocation.groups_per_step * allocation.k, cap)
    if allocator == "fixed":
        return batch, batch
    if allocator == "sara" and allocation.on_commit == "stop":
        first = 2 if allocation.probe == AUTO else max(2, allocation.probe)
        return min(allocation.groups_per_step * first, cap), cap
    return batch, cap


def _count_evaluations(config: RunConfig) -> int:
    """Between the steps, and at the end."""
    every, steps = config.training.evaluate_every, config.training.steps
    return 1 + ((steps - 1) // every if every else 0)
