from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.losses import Clipping, clipped_policy_loss

DAPO = Clipping(low=0.2, high=0.28, dual=3.0)
UNBOUNDED = Clipping(low=0.2, high=0.28, dual=None)


def slow_loss(policy: float, old: float, advantage: float, clipping: Clipping) -> float:
    """PPO's clipped objective of one token, negated, with Ye et al.'s dual bound: min and max as in the papers."""
    ratio = math.exp(policy - old)
    objective = min(ratio * advantage, min(max(ratio, 1 - clipping.low), 1 + clipping.high) * advantage)
    if clipping.dual is not None and advantage < 0:
        objective = max(objective, clipping.dual * advantage)
    return -objective


def losses_of(ratios: list[float], advantages: list[float], clipping: Clipping):
    """Losses, is_clipped and gradient by the policy's log-probabilities, each (T,), in float64."""
    policy = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    found = clipped_policy_loss(
        policy, torch.zeros(len(ratios), dtype=torch.float64), torch.tensor(advantages, dtype=torch.float64), clipping
    )
    found.losses.sum().backward()
    return found.losses.detach(), found.is_clipped, policy.grad


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "is_clipped"),
    [
        (1.0, 2.0, -2.0, False),
        (1.2, 2.0, -2.4, False),
        (1.5, 2.0, -2.56, True),  # -1.28 * 2: a good token may rise to 1.28 and no further
        (0.5, 2.0, -1.0, False),  # a good token that fell is pulled up whatever its ratio
        (0.9, -2.0, 1.8, False),
        (0.5, -2.0, 1.6, True),  # 0.8 * 2: a bad token may fall to 0.8 and no further
        (1.5, -2.0, 3.0, False),  # a bad token that rose is pushed down ...
        (2.9, -2.0, 5.8, False),
        (3.5, -2.0, 6.0, True),  # ... up to the dual bound 3 * 2
        (0.5, 0.0, 0.0, False),
        (5.0, 0.0, 0.0, False),
    ],
)
def test_the_clipped_loss_worked_out_on_both_sides_for_both_signs(ratio, advantage, loss, is_clipped):
    losses, clipped, gradient = losses_of([ratio], [advantage], DAPO)
    assert losses.item() == pytest.approx(loss, abs=1e-12)
    assert bool(clipped) is is_clipped
    # Inside the bounds the slope by the log-probability is -r A.
    assert gradient.item() == pytest.approx(0.0 if is_clipped else -ratio * advantage, abs=1e-12)


def test_the_upper_and_the_lower_bound_are_different_bounds():
    narrow_above = Clipping(low=0.5, high=0.1, dual=None)
    losses, clipped, _ = losses_of([1.2, 0.6, 0.4], [1.0, -1.0, -1.0], narrow_above)
    assert losses.tolist() == pytest.approx([-1.1, 0.6, 0.5])
    assert clipped.tolist() == [True, False, True]


def test_without_a_dual_bound_a_bad_tokens_loss_grows_with_its_ratio():
    losses, clipped, gradient = losses_of([50.0, 3.5], [-2.0, -2.0], UNBOUNDED)
    assert losses.tolist() == pytest.approx([100.0, 7.0])
    assert clipped.tolist() == [False, False]
    assert gradient.tolist() == pytest.approx([100.0, 7.0])


def rounded(low: float, high: float):
    return st.floats(low, high).map(lambda value: round(value, 3))


tokens = st.lists(st.tuples(rounded(-8, 0), rounded(-8, 0), rounded(-5, 5)), min_size=1, max_size=30)
clippings = st.builds(
    Clipping, low=st.floats(0.01, 0.9), high=st.floats(0.01, 2.0), dual=st.none() | st.floats(1.01, 10)
)


@given(tokens, clippings)
def test_the_clipped_loss_agrees_with_a_slow_loop(rows, clipping):
    expected = [slow_loss(*row, clipping) for row in rows]
    columns = list(zip(*rows, strict=True))
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        losses = clipped_policy_loss(*(torch.tensor(column, dtype=dtype) for column in columns), clipping).losses
        assert losses.tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@given(tokens, clippings)
def test_is_clipped_is_true_exactly_where_a_bound_makes_the_gradient_zero(rows, clipping):
    policy, old, advantages = (torch.tensor(c, dtype=torch.float64) for c in zip(*rows, strict=True))
    policy.requires_grad_()
    found = clipped_policy_loss(policy, old, advantages, clipping)
    found.losses.sum().backward()
    is_clipped = found.is_clipped
    is_active = advantages != 0  # a token without an advantage has no gradient, bound or not
    assert torch.equal(is_clipped[is_active], policy.grad[is_active] == 0)
    assert not is_clipped[~is_active].any()


@given(tokens)
def test_at_ratio_one_the_loss_is_minus_the_advantage_and_so_is_its_slope(rows):
    logprobs, _, advantages = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    policy = logprobs.clone().requires_grad_()
    found = clipped_policy_loss(policy, logprobs, advantages, DAPO)
    found.losses.sum().backward()
    assert torch.equal(found.losses.detach(), -advantages) and torch.equal(policy.grad, -advantages)
    assert not found.is_clipped.any()


def test_no_gradient_reaches_the_old_logprobs_or_the_advantages():
    policy = torch.tensor([-1.0, -2.0], requires_grad=True)
    old, advantages = torch.tensor([-1.1, -1.0]), torch.tensor([1.0, -1.0])
    losses = clipped_policy_loss(policy, old, advantages, DAPO).losses
    (gradient,) = torch.autograd.grad(losses.sum(), policy)
    assert gradient.abs().sum() > 0
    assert not old.requires_grad and not advantages.requires_grad


@given(tokens, clippings)
def test_each_bound_is_reported_for_what_it_bounds(rows, clipping):
    policy, old, advantages = (torch.tensor(c, dtype=torch.float64) for c in zip(*rows, strict=True))
    found = clipped_policy_loss(policy, old, advantages, clipping)
    ratio = torch.exp(policy - old)
    assert not ((found.is_low & found.is_high) | (found.is_low & found.is_dual) | (found.is_high & found.is_dual)).any()
    assert torch.equal(found.is_high, (advantages > 0) & (ratio > 1 + clipping.high))
    assert torch.equal(found.is_low | found.is_dual, found.is_clipped & (advantages < 0))
    if clipping.dual is None:
        assert not found.is_dual.any()
    else:
        assert (ratio[found.is_dual] > clipping.dual).all()


@given(tokens, clippings)
def test_the_gradient_is_the_slope_by_finite_differences(rows, clipping):
    columns = [torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True)]
    policy = columns[0].clone().requires_grad_()
    clipped_policy_loss(policy, columns[1], columns[2], clipping).losses.sum().backward()
    step = 1e-6
    up, down = (clipped_policy_loss(columns[0] + s, columns[1], columns[2], clipping) for s in (step, -step))
    is_smooth = (up.is_clipped == down.is_clipped) & (up.is_dual == down.is_dual)  # no kink in between
    slope = (up.losses - down.losses) / (2 * step)
    torch.testing.assert_close(policy.grad[is_smooth], slope[is_smooth], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("advantage", "expected"), [(1.0, -1.28), (-1.0, 3.0), (0.0, 0.0)])
def test_a_ratio_that_would_overflow_is_clipped_like_any_other(advantage, expected):
    policy = torch.tensor([100.0], requires_grad=True)
    found = clipped_policy_loss(policy, torch.zeros(1), torch.tensor([advantage]), Clipping(0.2, 0.28, 3.0))
    found.losses.sum().backward()
    assert found.losses.item() == pytest.approx(expected, abs=1e-6)
    assert policy.grad.item() == 0
