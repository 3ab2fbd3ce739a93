"""The Hugging Face engine: samples with the learner's own model, in its process.

A prompt is prefilled once for its whole group; finished sequences leave the batch. Sampling is by
inversion of one uniform number a token, made from the rollout's seed and the token's position, so
that a rollout does not depend on who shares its batch (up to floating-point rounding).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.engines.base import Completion, Engine, FinishReason, Request, Sampling
from sara.engines.kv_cache import growing_cache
from sara.seeds import unit_interval

_DROP_BELOW_ACTIVE_SHARE = 0.8


class HuggingFaceEngine(Engine):
    """Samples from a transformers causal language model.

    model           the policy; shared with the learner, so that a sync copies nothing
    end_token_ids   ids that end a completion
    max_sequences   completions decoded together at most
    """

    def __init__(self, model: PreTrainedModel, end_token_ids: Sequence[int], max_sequences: int):
        self.model = model
        self.end_token_ids = torch.tensor(sorted(end_token_ids), device=model.device)
        self.max_sequences = max_sequences
        self.policy_version = 0
        parameters = inspect.signature(model.forward).parameters  # transformers 5 renames the argument on its way
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    @torch.inference_mode()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion | None]:
        self.model.eval()
        completions: list[Completion | None] = [None] * len(requests)
        by_prompt = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt_ids), requests[i].prompt_ids))
        for start in range(0, len(by_prompt), self.max_sequences):
            wave = by_prompt[start : start + self.max_sequences]
            for i, completion in zip(wave, self._generate_wave([requests[i] for i in wave], sampling), strict=True):
                completions[i] = completion
        return completions

    def sync_weights(self, named_weights: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing is copied: engine and learner hold the same tensors."""
        self.policy_version += 1

    def _generate_wave(self, requests: list[Request], sampling: Sampling) -> list[Completion]:
        logits, mask, cache = self._prefill(requests)
        token_ids = np.zeros((len(requests), sampling.max_new_tokens), dtype=np.int64)  # (N, T)
        logprobs = np.zeros((len(requests), sampling.max_new_tokens), dtype=np.float32)  # (N, T)
        lengths = np.zeros(len(requests), dtype=np.int64)
        has_stopped = np.zeros(len(requests), dtype=bool)
        seeds = np.array([request.seed for request in requests], dtype=np.uint64)
        rows = np.arange(len(requests))  # which request each row of the batch belongs to
        for position in range(sampling.max_new_tokens):
            tokens, token_logprobs = _sample(logits, sampling.temperature, unit_interval(seeds[rows], position))
            active = ~has_stopped[rows]
            token_ids[rows[active], position] = tokens.cpu().numpy()[active]
            logprobs[rows[active], position] = token_logprobs.cpu().numpy()[active]
            lengths[rows[active]] += 1
            has_stopped[rows] |= torch.isin(tokens, self.end_token_ids).cpu().numpy()
            active = ~has_stopped[rows]
            if not active.any() or position + 1 == sampling.max_new_tokens:
                break
            if active.mean() < _DROP_BELOW_ACTIVE_SHARE:
                kept = torch.from_numpy(np.flatnonzero(active)).to(tokens.device)
                tokens, mask = tokens[kept], mask[kept]
                cache.batch_select_indices(kept)
                rows = rows[active]
            mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
            logits = self._forward(tokens[:, None], mask, cache)
        reasons: list[FinishReason] = ["stop" if stopped else "length" for stopped in has_stopped]
        return [
            Completion(token_ids[i, :length].copy(), logprobs[i, :length].copy(), reasons[i], self.policy_version)
            for i, length in enumerate(lengths)
        ]

    def _prefill(self, requests: list[Request]):
        """Last logits (N, V), attention mask (N, T) and cache, each distinct prompt computed once."""
        prompts = list(dict.fromkeys(request.prompt_ids for request in requests))
        position_of = {prompt: i for i, prompt in enumerate(prompts)}
        row_prompts = torch.tensor([position_of[request.prompt_ids] for request in requests], device=self.model.device)
        input_ids, mask = _left_pad(prompts, self.model.device)
        cache = growing_cache(self.model.config)
        logits = self._forward(input_ids, mask, cache)
        cache.batch_select_indices(row_prompts)
        return logits[row_prompts], mask[row_prompts], cache

    def _forward(self, input_ids: Tensor, mask: Tensor, cache) -> Tensor:
        """Logits (N, V) of the next token after `input_ids` (N, t); `mask` (N, T) covers the cached tokens too."""
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
        output = self.model(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: cache},
        )
        return output.logits[:, -1]


def _left_pad(prompts: Sequence[Sequence[int]], device) -> tuple[Tensor, Tensor]:
    """Ids and mask, both (P, T); pads stand on the left and are masked by position, never by id."""
    length = max(map(len, prompts))
    input_ids = torch.zeros((len(prompts), length), dtype=torch.int64)
    mask = torch.zeros((len(prompts), length), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        input_ids[row, length - len(prompt) :] = torch.tensor(prompt)
        mask[row, length - len(prompt) :] = 1
    return input_ids.to(device), mask.to(device)


def _sample(logits: Tensor, temperature: float, uniform: np.ndarray) -> tuple[Tensor, Tensor]:
    """Tokens (N,) int64 by inversion of the cumulative distribution, and their log-probabilities (N,) float32.

    logits    (N, V)
    uniform   (N,) float64 in [0, 1)
    """
    distribution = torch.log_softmax(logits.float() / temperature, dim=-1)  # (N, V)
    cumulative = distribution.double().exp().cumsum(dim=-1)
    threshold = torch.from_numpy(uniform).to(logits.device) * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True)[:, 0]
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    return tokens, distribution.gather(1, tokens[:, None])[:, 0]
