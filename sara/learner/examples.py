"""What is trained on: rollouts with their advantages, and how a step's rollouts are dealt to its updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sara.losses import token_weights
from sara.rollouts import Rollout

Array = np.ndarray


@dataclass(frozen=True)
class TrainingExample:
    """One rollout with what is known of it before the update; n of its T response tokens are trained on.

    advantage             one number for all its tokens, or (n,) one for each trained token
    loss_mask             (T,) bool, the trained tokens; None: all of them
    returns, values       (n,) what the value function should have expected, and what it did; None without one
    reference_logprobs    (n,) under the reference; None without one
    """

    rollout: Rollout
    advantage: float | Array
    loss_mask: Array | None = None
    returns: Array | None = None
    values: Array | None = None
    reference_logprobs: Array | None = None

    @cached_property
    def trained_positions(self) -> Array:
        """(n,) places in the response, 0..T-1."""
        if self.loss_mask is None:
            return np.arange(self.response_tokens)
        return np.flatnonzero(self.loss_mask)

    @property
    def trained_tokens(self) -> int:
        return len(self.trained_positions)

    @property
    def response_tokens(self) -> int:
        return len(self.rollout.completion.token_ids)

    @property
    def total_tokens(self) -> int:
        return len(self.rollout.prompt_ids) + self.response_tokens

    @property
    def teaches(self) -> bool:
        """Whether its policy gradient is not zero throughout."""
        return self.trained_tokens > 0 and bool(np.any(self.advantage))

    @property
    def token_advantages(self) -> Array:
        """(n,) float64"""
        return np.broadcast_to(np.asarray(self.advantage, dtype=np.float64), (self.trained_tokens,))


@dataclass(frozen=True)
class Batch:
    """The rollouts of one optimizer update.

    indices     (M,) places in the step's examples of those that are computed; the others have no gradient
    weights     (M,) weight of the loss of their tokens, by the aggregation over *all* rollouts of the update
    prompts     of the whole update, for messages
    """

    indices: list[int]
    weights: Array
    prompts: list[int]


def make_batch(
    examples: Sequence[TrainingExample],
    part: Sequence[int],
    aggregation: str,
    longest: int | None,
    equal_groups: bool,
    is_all_computed: bool,
) -> Batch:
    """The update over `part` of a step's examples.

    is_all_computed   whether rollouts without an advantage have a gradient too (KL, entropy, value)
    """
    prompts = np.array([examples[i].rollout.prompt for i in part])
    lengths = np.array([examples[i].trained_tokens for i in part])
    weights = token_weights(aggregation, lengths, prompts, longest, equal_groups)
    rows = [
        row for row, i in enumerate(part) if examples[i].teaches or (is_all_computed and examples[i].trained_tokens)
    ]
    return Batch([part[row] for row in rows], weights[rows], sorted(set(prompts.tolist())))


def split_by_group(examples: Sequence[TrainingExample], parts: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Indices of the examples of each part; groups stay whole and are dealt in a seeded order."""
    prompts = np.array([example.rollout.prompt for example in examples])
    for groups in np.array_split(rng.permutation(np.unique(prompts)), parts):
        indices = np.flatnonzero(np.isin(prompts, groups)).tolist()
        if indices:
            yield indices
