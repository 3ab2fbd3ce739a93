from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.losses import clipped_value_loss, truncated_weights

numbers = st.floats(-5, 5).map(lambda x: round(x, 3))


def slow_value_loss(value: float, old: float, target: float, clip: float | None) -> float:
    plain = (value - target) ** 2
    if clip is None:
        return plain / 2
    near = min(max(value, old - clip), old + clip)
    return max(plain, (near - target) ** 2) / 2


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1), st.sampled_from([None, 0.1, 1.0]))
def test_the_value_loss_agrees_with_a_slow_loop(rows, clip):
    values, old, returns = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    expected = [slow_value_loss(*row, clip) for row in rows]
    assert clipped_value_loss(values, old, returns, clip).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("clip", [None, 0.3])
def test_the_value_gradient_is_the_slope_by_finite_differences(clip):
    # Inside the clip, beyond it away from the return, and beyond it towards the return; no value stands on a kink.
    values = torch.tensor([0.1, -0.7, 0.8, 2.0], dtype=torch.float64, requires_grad=True)
    returns = torch.tensor([1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda v: clipped_value_loss(v, torch.zeros(4).double(), returns, clip), values)


def test_a_value_that_has_moved_beyond_the_clip_is_moved_no_further():
    # Return 1, old value 0, clip 0.2: at 0.5 the clipped error (0.8^2) is the larger one and has no slope.
    values = torch.tensor([0.1, 0.5, -0.5], dtype=torch.float64, requires_grad=True)
    losses = clipped_value_loss(values, torch.zeros(3), torch.ones(3), 0.2)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([0.405, 0.32, 1.125])
    assert values.grad.tolist() == pytest.approx([-0.9, 0.0, -1.5])  # moving back towards the return is allowed


@given(st.lists(st.tuples(st.floats(-9, 0), st.floats(-9, 0)), min_size=1), st.floats(0.1, 10))
def test_importance_weights_agree_with_a_slow_loop(rows, cap):
    old, behavior = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    expected = [min(math.exp(o) / math.exp(b), cap) for o, b in rows]
    assert truncated_weights(old, behavior, cap).tolist() == pytest.approx(expected, rel=1e-10)


def test_importance_weights_are_ratios_up_to_the_cap():
    old, behavior = torch.tensor([-1.0, -1.0, -3.0]).log_softmax(0), torch.tensor([-1.0, -9.0, -1.0]).log_softmax(0)
    weights = truncated_weights(old.requires_grad_(), behavior, 2.0)
    ratios = [math.exp(a - b) for a, b in zip(old.tolist(), behavior.tolist(), strict=True)]
    assert ratios[1] > 2 > ratios[0] > ratios[2]
    assert weights.tolist() == pytest.approx([ratios[0], 2.0, ratios[2]], rel=1e-5)
    assert not weights.requires_grad
