"""The Hugging Face engine: samples with the learner's own model, in its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.engines.base import Completion, Engine, Request, Sampling
from sara.engines.cohort import Cohort, Ticketed

_ADMIT_AT_FREE_SHARE = 0.5


class HuggingFaceEngine(Engine):
    """Samples from a transformers causal language model; rollouts that start together decode as one cohort.

    model           the policy; shared with the learner, so that a sync copies nothing
    end_token_ids   ids that end a completion
    max_sequences   completions decoded together at most
    """

    shares_model = True

    def __init__(self, model: PreTrainedModel, end_token_ids: Sequence[int], max_sequences: int):
        self.model = model
        self.end_token_ids = torch.tensor(sorted(end_token_ids), device=model.device)
        self.max_sequences = max_sequences
        self.policy_version = 0
        self._tickets = count()
        self._waiting: list[Ticketed] = []
        self._cohorts: list[Cohort] = []

    def submit(self, requests: Sequence[Request], sampling: Sampling) -> list[int]:
        fresh = [Ticketed(next(self._tickets), request, sampling) for request in requests]
        self._waiting += fresh
        return [rollout.ticket for rollout in fresh]

    @torch.inference_mode()
    def advance(self) -> list[tuple[int, Completion | None]]:
        self.model.eval()
        self._admit()
        ended = [pair for cohort in self._cohorts for pair in cohort.decode(self.policy_version)]
        self._forget_ended_cohorts()
        return ended

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        given_up = set(tickets)
        tokens = {rollout.ticket: 0 for rollout in self._waiting if rollout.ticket in given_up}
        self._waiting = [rollout for rollout in self._waiting if rollout.ticket not in given_up]
        for cohort in self._cohorts:
            tokens |= cohort.abort(given_up)
        self._forget_ended_cohorts()
        return tokens

    @property
    def num_in_flight(self) -> int:
        return len(self._waiting) + self._num_decoding

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion | None]:
        """As every engine does; neighbours in a cohort have prompts of about equal length, and so little padding."""
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt_ids), requests[i].prompt_ids))
        completions = super().generate([requests[i] for i in order], sampling)
        return [completion for _, completion in sorted(zip(order, completions, strict=True), key=lambda pair: pair[0])]

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing is copied: engine and learner hold the same tensors."""
        assert not self.num_in_flight, "sync_weights() while rollouts are in flight"
        self.policy_version += 1

    @property
    def _num_decoding(self) -> int:
        return sum(cohort.num_active for cohort in self._cohorts)

    def _admit(self) -> None:
        """Start those that wait, once there is room for all or for a good part of a batch: each cohort costs a pass."""
        free = self.max_sequences - self._num_decoding
        if self._waiting and free >= min(len(self._waiting), max(1, int(_ADMIT_AT_FREE_SHARE * self.max_sequences))):
            started, self._waiting = self._waiting[:free], self._waiting[free:]
            self._cohorts.append(Cohort(self.model, self.end_token_ids, started))

    def _forget_ended_cohorts(self) -> None:
        self._cohorts = [cohort for cohort in self._cohorts if cohort.num_active]
