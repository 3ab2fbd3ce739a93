"""The contract of an engine: prompts as token ids in, completions as token ids out.

Owns what a request and a completion are. A batch is one call of `generate`; a stream is `submit`, `advance` and
`abort`, rollout by rollout. An engine samples from the policy and knows nothing of rewards, groups or problems;
verifying is `sara.rollouts`'s.
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
    """How completions are sampled.

    temperature      0 or more; 0 is greedy decoding, whose log-probabilities are 0: nothing else can be sampled
    max_new_tokens   1 or more, longest completion in tokens
    """

    temperature: float
    max_new_tokens: int

    def __post_init__(self):
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature = {self.temperature}; expected a number in [0, inf)")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens = {self.max_new_tokens}; expected 1 or more")


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
    """Turns prompts into completions: submit requests, advance until they have ended.

    policy_version   weight syncs so far
    max_sequences    rollouts decoded together at most; a stream keeps that many in flight
    """

    policy_version: int = 0
    max_sequences: int = 512
    shares_model: bool = False  # samples from the learner's own model, whose weights are its own at all times

    @abstractmethod
    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        """Take on rollouts; each one's ticket, in the order of the requests and unique over the engine's life.

        Nothing is computed before the next `advance`. Raises ValueError for a request that the engine cannot serve,
        and then takes on none of them.
        """

    @abstractmethod
    def advance(self) -> list[tuple[int, Completion | None]]:
        """Decode a little, about one token of each rollout in flight; what has ended since, with its ticket.

        None stands where the engine failed on a rollout. Empty while everything is still running, and when nothing is.
        """

    @abstractmethod
    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        """Give up rollouts; ticket -> tokens sampled of it so far. `advance` never returns an aborted rollout.

        Tickets that are unknown or have ended are ignored.
        """

    @property
    @abstractmethod
    def num_in_flight(self) -> int:
        """Rollouts that were submitted and have neither been returned nor aborted."""

    @abstractmethod
    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take over the learner's weights, and any memory that was released; raise `policy_version` by one.

        Nothing may be in flight: a completion comes from one policy.
        """

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion | None]:
        """Completions in the order of the requests; None where the engine failed on one. Nothing may be in flight."""
        assert not self.num_in_flight, "generate() while rollouts are in flight"
        tickets = self.submit(requests, sampling)
        ended: dict[int, Completion | None] = {}
        while self.num_in_flight:
            ended.update(self.advance())
        return [ended[ticket] for ticket in tickets]

    def release_memory(self) -> None:  # noqa: B027 - an engine that holds the learner's own tensors has none to give
        """Give up, until the next `sync_weights`, the memory that the learner can use. Nothing may be in flight."""

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Release what the engine holds. It is of no further use."""
