"""A cohort: rollouts that the Hugging Face engine decodes together, over one key-value cache.

A prompt is prefilled once for all its rollouts; ended rows leave the batch. Sampling is by inversion of one
uniform number a token, made from the rollout's seed and the token's position, so that a rollout does not depend
on who shares its batch (up to floating-point rounding).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from sara.engines.base import Completion, Request, Sampling
from sara.engines.kv_cache import cache_argument, can_be_joined, growing_cache
from sara.seeds import unit_interval

_DROP_BELOW_ACTIVE_SHARE = 0.8
_PER_ROW = (
    *("tickets", "is_active", "lengths", "_limits", "_temperatures", "_seeds"),
    *("_token_ids", "_logprobs"),
)
"""Arrays of a cohort with an entry, or a row, for each row of its batch."""


@dataclass(frozen=True)
class Ticketed:
    """A rollout as submitted."""

    ticket: int
    request: Request
    sampling: Sampling


class Cohort:
    """Rows of a batch, one a rollout; all arrays run over rows (N,) and lose those that have left."""

    def __init__(self, model: PreTrainedModel, end_token_ids: Tensor, rollouts: Sequence[Ticketed]):
        self.model, self.end_token_ids = model, end_token_ids
        self._cache_argument = cache_argument(model)
        self._prompts = [rollout.request.prompt_ids for rollout in rollouts]
        self._cache, self._mask, self._last_tokens = None, None, None
        self.tickets = np.array([rollout.ticket for rollout in rollouts])
        self.is_active = np.ones(len(rollouts), dtype=bool)
        self.lengths = np.zeros(len(rollouts), dtype=np.int64)
        self._limits = np.array([rollout.sampling.max_new_tokens for rollout in rollouts])
        self._temperatures = np.array([rollout.sampling.temperature for rollout in rollouts])
        self._seeds = np.array([rollout.request.seed for rollout in rollouts], dtype=np.uint64)
        self._token_ids = np.zeros((len(rollouts), self._limits.max()), dtype=np.int64)  # (N, T)
        self._logprobs = np.zeros(self._token_ids.shape, dtype=np.float32)  # (N, T)

    @property
    def num_active(self) -> int:
        return int(np.count_nonzero(self.is_active))

    def decode(self, policy_version: int) -> list[tuple[int, Completion]]:
        """One more token of each active row; those that have ended with it leave, with their tickets."""
        tokens, logprobs = _sample(self._next_logits(), self._temperatures, unit_interval(self._seeds, self.lengths))
        is_end = torch.isin(tokens, self.end_token_ids).cpu().numpy()
        active = np.flatnonzero(self.is_active)
        self._last_tokens = tokens
        self._token_ids[active, self.lengths[active]] = tokens.cpu().numpy()[active]
        self._logprobs[active, self.lengths[active]] = logprobs.cpu().numpy()[active]
        self.lengths[active] += 1
        ended = active[is_end[active] | (self.lengths[active] == self._limits[active])]
        self.is_active[ended] = False
        return [(int(self.tickets[row]), self._completion(row, is_end[row], policy_version)) for row in ended]

    def abort(self, tickets: Iterable[int]) -> dict[int, int]:
        """Ticket -> tokens so far of those among `tickets` that were active here; they leave."""
        rows = np.flatnonzero(np.isin(self.tickets, list(tickets)) & self.is_active)
        self.is_active[rows] = False
        return dict(zip(self.tickets[rows].tolist(), self.lengths[rows].tolist(), strict=True))

    @property
    def can_join(self) -> bool:
        """Whether it can become part of another cohort, or take one in: not before it has decoded a token."""
        return self._cache is not None and can_be_joined(self._cache)

    def join(self, other: Cohort) -> None:
        """Take over the rows of another cohort."""
        length = max(self._mask.shape[1], other._mask.shape[1])
        width = max(self._token_ids.shape[1], other._token_ids.shape[1])
        self._mask = torch.cat([_widened(self._mask, length), _widened(other._mask, length)])
        self._last_tokens = torch.cat([self._last_tokens, other._last_tokens])
        for ours, theirs in zip(self._cache.layers, other._cache.layers, strict=True):
            ours.append_rows(theirs)
        for name in _PER_ROW:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours.ndim == 2:
                ours, theirs = (np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (ours, theirs))
            setattr(self, name, np.concatenate([ours, theirs]))

    def _completion(self, row: int, has_stopped: bool, policy_version: int) -> Completion:
        length = self.lengths[row]
        token_ids, logprobs = self._token_ids[row, :length].copy(), self._logprobs[row, :length].copy()
        return Completion(token_ids, logprobs, "stop" if has_stopped else "length", policy_version)

    def _next_logits(self) -> Tensor:
        """Logits (N, V) of the next token of each row."""
        if self._cache is None:
            return self._prefill()
        if self.is_active.mean() < _DROP_BELOW_ACTIVE_SHARE:
            self._keep(np.flatnonzero(self.is_active))
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(self._mask), 1))], dim=1)
        return self._forward(self._last_tokens[:, None], self._mask)

    def _prefill(self) -> Tensor:
        """Last logits (N, V); fills cache and mask, each distinct prompt computed once."""
        prompts = list(dict.fromkeys(self._prompts))
        position_of = {prompt: i for i, prompt in enumerate(prompts)}
        row_prompts = torch.tensor([position_of[prompt] for prompt in self._prompts], device=self.model.device)
        input_ids, mask = _left_pad(prompts, self.model.device)
        self._cache = growing_cache(self.model.config)
        logits = self._forward(input_ids, mask)
        self._cache.batch_select_indices(row_prompts)
        self._mask = mask[row_prompts]
        return logits[row_prompts]

    def _keep(self, rows: np.ndarray) -> None:
        for name in _PER_ROW:
            setattr(self, name, getattr(self, name)[rows])
        kept = torch.from_numpy(rows).to(self._mask.device)
        self._last_tokens, self._mask = self._last_tokens[kept], self._mask[kept]
        if can_be_joined(self._cache):  # positions that were those of rows which have left
            unused = int(self._mask.any(dim=0).int().argmax())
            self._mask = self._mask[:, unused:]
            for layer in self._cache.layers:
                layer.drop_first(unused)
        self._cache.batch_select_indices(kept)

    def _forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Logits (N, V) of the next token after `input_ids` (N, t); `mask` (N, T) covers the cached tokens too."""
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
        output = self.model(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: self._cache},
        )
        return output.logits[:, -1]


def _widened(mask: Tensor, length: int) -> Tensor:
    return pad(mask, (length - mask.shape[1], 0))


def _left_pad(prompts: Sequence[Sequence[int]], device) -> tuple[Tensor, Tensor]:
    """Ids and mask, both (P, T); pads stand on the left and are masked by position, never by id."""
    length = max(map(len, prompts))
    input_ids = torch.zeros((len(prompts), length), dtype=torch.int64)
    mask = torch.zeros((len(prompts), length), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        input_ids[row, length - len(prompt) :] = torch.tensor(prompt)
        mask[row, length - len(prompt) :] = 1
    return input_ids.to(device), mask.to(device)


def _sample(logits: Tensor, temperatures: np.ndarray, uniform: np.ndarray) -> tuple[Tensor, Tensor]:
    """Tokens (N,) int64 by inversion of the cumulative distribution, and their log-probabilities (N,) float32.

    logits         (N, V)
    temperatures   (N,) float64 >= 0; at 0 the likeliest token, with log-probability 0
    uniform        (N,) float64 in [0, 1)
    """
    is_greedy = temperatures == 0
    scale = torch.from_numpy(np.where(is_greedy, 1.0, temperatures)).to(logits.device, torch.float32)
    distribution = torch.log_softmax(logits.float() / scale[:, None], dim=-1)  # (N, V)
    cumulative = distribution.double().exp().cumsum(dim=-1)
    threshold = torch.from_numpy(uniform).to(logits.device) * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True)[:, 0]
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    logprobs = distribution.gather(1, tokens[:, None])[:, 0]
    if is_greedy.any():
        greedy = torch.from_numpy(is_greedy).to(logits.device)
        tokens, logprobs = torch.where(greedy, logits.argmax(dim=-1), tokens), logprobs.masked_fill(greedy, 0.0)
    return tokens, logprobs
