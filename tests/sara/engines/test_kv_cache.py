from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, MistralConfig
from transformers.cache_utils import DynamicLayer

from sara.engines.kv_cache import GrowingLayer, growing_cache

HEADS, HEAD_DIM = 3, 5


class Pair:
    """A GrowingLayer and a DynamicLayer that are told the same; they must hold the same."""

    def __init__(self, seed: int = 0):
        self.growing, self.plain = GrowingLayer(), DynamicLayer()
        self.generator = torch.Generator().manual_seed(seed)

    def update(self, rows: int, length: int) -> None:
        keys, values = (torch.randn(rows, HEADS, length, HEAD_DIM, generator=self.generator) for _ in range(2))
        self._compare(self.growing.update(keys, values), self.plain.update(keys, values))

    def call(self, name: str, *args) -> None:
        getattr(self.growing, name)(*args)
        getattr(self.plain, name)(*args)
        if self.plain.is_initialized:
            self._compare((self.growing.keys, self.growing.values), (self.plain.keys, self.plain.values))

    def _compare(self, growing, plain) -> None:
        assert torch.equal(growing[0], plain[0]) and torch.equal(growing[1], plain[1])
        assert self.growing.get_seq_length() == self.plain.get_seq_length()
        assert self.growing.get_mask_sizes(1) == self.plain.get_mask_sizes(1)


def test_growing_layer_holds_what_a_dynamic_layer_holds_while_it_grows():
    pair = Pair()
    pair.update(4, 7)
    for length in [1] * 70 + [30, 1, 200, 1, 1]:  # past 7 + 64, past twice that, and a leap
        pair.update(4, length)


def test_growing_layer_holds_what_a_dynamic_layer_holds_through_selections():
    pair = Pair()
    pair.update(3, 5)
    pair.call("batch_select_indices", torch.tensor([0, 0, 1, 2, 2, 2]))  # prompts become groups
    for _ in range(80):
        pair.update(6, 1)
    pair.call("batch_select_indices", torch.tensor([5, 1, 3]))
    for _ in range(80):
        pair.update(3, 1)
    pair.call("batch_select_indices", torch.tensor([2]))
    pair.update(1, 1)


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (("reorder_cache", torch.tensor([3, 2, 1, 0])), 4),
        (("batch_repeat_interleave", 2), 8),
        (("crop", -3), 4),
        (("batch_select_indices", torch.tensor([1])), 1),
        (("reset",), 2),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_growing_layer_goes_on_right_after_any_change_a_dynamic_layer_knows(change, rows):
    pair = Pair()
    pair.update(4, 6)
    pair.update(4, 1)
    pair.call(*change)
    pair.update(rows, 1)
    pair.update(rows, 100)


def test_growing_layer_holds_what_a_dynamic_layer_holds_through_any_sequence_of_changes():
    choose = torch.Generator().manual_seed(7)
    for seed in range(20):
        pair, rows = Pair(seed), 3
        pair.update(rows, 4)
        for _ in range(30):
            if torch.rand((), generator=choose) < 0.3:
                indices = torch.randint(rows, (int(torch.randint(1, 7, (), generator=choose)),), generator=choose)
                pair.call("batch_select_indices", indices)
                rows = len(indices)
            pair.update(rows, int(torch.randint(1, 40, (), generator=choose)))


def test_a_decoding_step_writes_into_the_buffer_instead_of_copying_it():
    layer = GrowingLayer()
    states = torch.ones(2, HEADS, 10, HEAD_DIM)
    layer.update(states, states)
    places = set()
    for _ in range(64):
        keys, values = layer.update(states[:, :, :1], states[:, :, :1])
        places.add((keys.data_ptr(), values.data_ptr()))
    assert len(places) == 1
    layer.update(states[:, :, :1], states[:, :, :1])
    assert layer.keys.data_ptr() not in {place for place, _ in places}  # 10 + 64 were all it had room for


def test_what_an_update_returned_is_not_overwritten_by_later_ones():
    layer = GrowingLayer()
    first, _ = layer.update(torch.zeros(2, HEADS, 3, HEAD_DIM), torch.zeros(2, HEADS, 3, HEAD_DIM))
    layer.update(torch.ones(2, HEADS, 2, HEAD_DIM), torch.ones(2, HEADS, 2, HEAD_DIM))
    assert first.shape == (2, HEADS, 3, HEAD_DIM) and not first.any()


def test_only_layers_that_keep_everything_are_replaced():
    full = growing_cache(LlamaConfig(num_hidden_layers=3))
    assert [type(layer) for layer in full.layers] == [GrowingLayer] * 3
    windowed = growing_cache(MistralConfig(num_hidden_layers=2, sliding_window=16))
    assert not any(isinstance(layer, GrowingLayer) for layer in windowed.layers)
    assert len(windowed.layers) == 2
