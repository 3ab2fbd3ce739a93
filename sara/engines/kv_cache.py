"""A key-value cache that grows by doubling, so that a decoding step writes one position instead of copying all."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

_MIN_GROWTH = 64


class GrowingLayer(DynamicLayer):
    """A DynamicLayer whose `keys` and `values` (N, heads, T, head_dim) are views into larger buffers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if not self._has_room(end):
            capacity = max(2 * start, end + _MIN_GROWTH)
            self._buffers = (
                _grown(self.keys, key_states, capacity),
                _grown(self.values, value_states, capacity),
            )
        keys, values = self._buffers
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values

    def _has_room(self, end: int) -> bool:
        """Whether `keys` still is a view into its buffer (a selection or a reset parts them) that reaches to `end`."""
        if self._buffers is None or self.keys.data_ptr() != self._buffers[0].data_ptr():
            return False
        return self._buffers[0].shape[-2] >= end

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self._buffers = None  # frees what the selection, a copy, has replaced

    def drop_first(self, count: int) -> None:
        """Forget the first `count` positions of every row."""
        self.keys, self.values = self.keys[:, :, count:], self.values[:, :, count:]

    def append_rows(self, other: GrowingLayer) -> None:
        """Take over the rows of another layer, below ours; the shorter of the two is padded in front with zeros."""
        length = max(self.get_seq_length(), other.get_seq_length())
        self.keys = torch.cat([_padded(self.keys, length), _padded(other.keys, length)])
        self.values = torch.cat([_padded(self.values, length), _padded(other.values, length)])
        self._buffers = None


def _padded(states: Tensor, length: int) -> Tensor:
    return pad(states, (0, 0, length - states.shape[-2], 0))


def _grown(old: Tensor, like: Tensor, capacity: int) -> Tensor:
    rows, heads, _, head_dim = like.shape
    buffer = torch.empty((rows, heads, capacity, head_dim), dtype=like.dtype, device=like.device)
    if old.numel():
        buffer[:, :, : old.shape[-2]] = old
    return buffer


def can_be_joined(cache: DynamicCache) -> bool:
    """Whether every layer keeps all positions, so that rows of another cache can be put below its own."""
    return all(isinstance(layer, GrowingLayer) for layer in cache.layers)


def growing_cache(model_config) -> DynamicCache:
    """A cache for the model; layers of special kinds (sliding windows, ...) stay as transformers makes them."""
    cache = DynamicCache(config=model_config)
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def cache_argument(model: PreTrainedModel) -> str:
    """What the model's forward pass calls its cache: transformers 5 renames the argument on its way."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
