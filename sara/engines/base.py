"""The contract of an engine: prompts as token ids in, completions as token ids out.

Owns what a request and a completion are. An engine samples from the policy and knows nothing of
rewards, groups or problems; verifying is `sara.rollouts`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Request:
    """One rollout to sample.

    prompt_ids   token ids of the prompt, special tokens included
    seed         unsigned 64-bit seed; decides the completion, whoever shares the batch
    """

    prompt_ids: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled: temperature > 0, longest completion in tokens."""

    temperature: float
    max_new_tokens: int


@dataclass(frozen=True)
class Completion:
    """What an engine sampled for one request.

    token_ids           (T,) int64, the end-of-sequence token included where it was sampled
    behavior_logprobs   (T,) float32, log-probability of each token under the sampling distribution
    finish_reason       "stop" (an end token was sampled) or "length" (cut at max_new_tokens)
    policy_version      weight syncs that the engine had seen when it sampled
    """

    token_ids: np.ndarray
    behavior_logprobs: np.ndarray
    finish_reason: FinishReason
    policy_version: int


class Engine(ABC):
    """Turns prompts into completions."""

    policy_version: int = 0

    @abstractmethod
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion | None]:
        """Completions in the order of the requests; None where the engine failed on one."""

    @abstractmethod
    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take over the learner's weights and raise `policy_version` by one."""

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Release what the engine holds."""
