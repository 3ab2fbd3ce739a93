"""Micro-batches: rollouts of like length that go through the model together, as rows, end to end or after prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import Cache

from sara.learner.examples import TrainingExample
from sara.learner.shared_prompts import SharedPrompts

_PAD = 0  # any id: what it stands for is never looked at


@dataclass(frozen=True)
class MicroBatch:
    """Some rollouts as tensors, with M trained tokens, rollout after rollout.

    input_ids        (N, L) int64, prompt and response of each
    positions        (N, L) int64, or None: 0, 1, ... along each row
    attention_mask   (N, L) int64, or None: causal attention alone keeps out what stands behind a row's end
    predictors       (M,) int64, places in the flattened (N * L) that predict the trained tokens: one before each
    targets          (M,) int64, ids of the trained tokens
    cache            keys and values of the prompts that the rows go on from; None: prompts are in `input_ids`
    ends             (U, H) last states of those prompts, which stand before the flattened (N * L) then
    """

    input_ids: Tensor
    positions: Tensor | None
    attention_mask: Tensor | None
    predictors: Tensor
    targets: Tensor
    cache: Cache | None = None
    ends: Tensor | None = None


def split_by_tokens(lengths: Sequence[int], max_tokens: int, is_packed: bool = False) -> Iterator[list[int]]:
    """Indices of sequences of like length whose padded size stays within max_tokens (one sequence at least).

    lengths     (N,) tokens of each, prompt included
    is_packed   end to end, so that a micro-batch is as large as its sequences together

    One that is a quarter full takes no sequence in that would make more than a twelfth of it padding: 128 rollouts of
    very different lengths in 4,096 tokens are padded by 8% and not by 23%.
    """
    part: list[int] = []
    held = 0  # tokens of the part without its padding
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        together = held + lengths[i]
        size = together if is_packed else (len(part) + 1) * lengths[i]
        is_wasteful = 4 * held >= max_tokens and 12 * (size - together) > size
        if part and (size > max_tokens or is_wasteful):
            yield part
            part, together = [], lengths[i]
        part.append(i)
        held = together
    if part:
        yield part


def as_rows(examples: Sequence[TrainingExample], device) -> MicroBatch:
    """Padded on the right, where causal attention never looks: no mask is needed, and none slows attention down."""
    sequences = [_sequence(example) for example in examples]
    length = max(map(len, sequences))
    input_ids = np.full((len(examples), length), _PAD, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        input_ids[row, : len(sequence)] = sequence
    starts = np.arange(len(examples)) * length
    return _micro_batch(examples, input_ids, None, starts, device)


def end_to_end(examples: Sequence[TrainingExample], device) -> MicroBatch:
    """One row without padding; positions start anew with each rollout, by which attention keeps them apart."""
    sequences = [_sequence(example) for example in examples]
    positions = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
    starts = np.cumsum([0] + [len(sequence) for sequence in sequences[:-1]])
    return _micro_batch(examples, np.concatenate(sequences)[None], positions[None], starts, device)


def after_prompts(examples: Sequence[TrainingExample], shared: SharedPrompts, device) -> MicroBatch:
    """Rows of responses alone, which go on from prompts that the model has read; their last tokens predict nothing."""
    places = shared.places([example.rollout.prompt_ids for example in examples])  # (N,)
    length = max(1, *(example.response_tokens - 1 for example in examples))
    input_ids = np.full((len(examples), length), _PAD, dtype=np.int64)
    targets, predictors = [], []
    for row, (example, place) in enumerate(zip(examples, places.tolist(), strict=True)):
        tokens, trained = example.rollout.completion.token_ids, example.trained_positions
        input_ids[row, : len(tokens) - 1] = tokens[:-1]
        targets.append(tokens[trained])
        predictors.append(np.where(trained == 0, place, len(shared.ends) + row * length + trained - 1))
    cache, is_prompt = shared.cache(places)
    is_row = torch.ones(input_ids.shape, dtype=torch.bool, device=device)
    return MicroBatch(
        input_ids=torch.from_numpy(input_ids).to(device),
        positions=shared.lengths[places][:, None] + torch.arange(length, device=device),
        attention_mask=torch.cat([is_prompt, is_row], dim=1).long(),
        predictors=torch.from_numpy(np.concatenate(predictors)).to(device),
        targets=torch.from_numpy(np.concatenate(targets).astype(np.int64)).to(device),
        cache=cache,
        ends=shared.ends,
    )


def _sequence(example: TrainingExample) -> np.ndarray:
    return np.concatenate([example.rollout.prompt_ids, example.rollout.completion.token_ids]).astype(np.int64)


def _micro_batch(examples, input_ids: np.ndarray, positions: np.ndarray | None, starts, device) -> MicroBatch:
    places = [
        start + len(example.rollout.prompt_ids) + example.trained_positions
        for start, example in zip(starts, examples, strict=True)
    ]
    trained = torch.from_numpy(np.concatenate(places).astype(np.int64))
    ids = torch.from_numpy(input_ids)
    return MicroBatch(
        input_ids=ids.to(device),
        positions=None if positions is None else torch.from_numpy(positions).to(device),
        attention_mask=None,
        predictors=(trained - 1).to(device),
        targets=ids.flatten()[trained].to(device),
    )
