"""The Hugging Face engine: samples with the learner's own model, in its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.engines.base import Completion, Engine, Request, Sampling
from sara.engines.cohort import Cohort, Ticketed

_ADMIT_AT_SHARE = 0.25
_JOIN_UP_TO_RATIO = 2


class HuggingFaceEngine(Engine):
    """Samples from a transformers causal language model; rollouts that start together are a cohort, and cohorts join.

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
        self._join_cohorts()
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
        """As every engine does, in waves: rows that began together, after prompts of about one length, pad least."""
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt_ids), requests[i].prompt_ids))
        completions: list[Completion | None] = [None] * len(requests)
        for start in range(0, len(order), self.max_sequences):
            wave = order[start : start + self.max_sequences]
            for i, completion in zip(wave, super().generate([requests[i] for i in wave], sampling), strict=True):
                completions[i] = completion
        return completions

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing is copied: engine and learner hold the same tensors."""
        assert not self.num_in_flight, "sync_weights() while rollouts are in flight"
        self.policy_version += 1

    @property
    def _num_decoding(self) -> int:
        return sum(cohort.num_active for cohort in self._cohorts)

    def _admit(self) -> None:
        """Start those that wait, once they are a good part of those that decode: each cohort costs its own pass."""
        decoding = self._num_decoding
        started = self._waiting[: self.max_sequences - decoding]
        if started and len(started) >= _ADMIT_AT_SHARE * decoding:
            self._waiting = self._waiting[len(started) :]
            self._cohorts.append(Cohort(self.model, self.end_token_ids, started))

    def _join_cohorts(self) -> None:
        """Make one of cohorts that are about as large, the smallest first: so they stay few, and no row moves often."""
        self._cohorts.sort(key=lambda cohort: -cohort.num_active)
        while len(self._cohorts) > 1:
            larger, smaller = self._cohorts[-2:]
            is_worth_it = larger.num_active <= _JOIN_UP_TO_RATIO * smaller.num_active
            if not (is_worth_it and larger.can_join and smaller.can_join):
                break
            larger.join(smaller)
            self._cohorts.pop()

    def _forget_ended_cohorts(self) -> None:
        self._cohorts = [cohort for cohort in self._cohorts if cohort.num_active]
