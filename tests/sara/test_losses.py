from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.losses import Clipping, clipped_policy_loss, kl_k3

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
    losses, is_clipped = clipped_policy_loss(
        policy, torch.zeros(len(ratios), dtype=torch.float64), torch.tensor(advantages, dtype=torch.float64), clipping
    )
    losses.sum().backward()
    return losses.detach(), is_clipped, policy.grad


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
        losses, _ = clipped_policy_loss(*(torch.tensor(column, dtype=dtype) for column in columns), clipping)
        assert losses.tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@given(tokens, clippings)
def test_is_clipped_is_true_exactly_where_a_bound_makes_the_gradient_zero(rows, clipping):
    policy, old, advantages = (torch.tensor(c, dtype=torch.float64) for c in zip(*rows, strict=True))
    policy.requires_grad_()
    losses, is_clipped = clipped_policy_loss(policy, old, advantages, clipping)
    losses.sum().backward()
    is_active = advantages != 0  # a token without an advantage has no gradient, bound or not
    assert torch.equal(is_clipped[is_active], policy.grad[is_active] == 0)
    assert not is_clipped[~is_active].any()


@given(tokens)
def test_at_ratio_one_the_loss_is_minus_the_advantage_and_so_is_its_slope(rows):
    logprobs, _, advantages = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    policy = logprobs.clone().requires_grad_()
    losses, is_clipped = clipped_policy_loss(policy, logprobs, advantages, DAPO)
    losses.sum().backward()
    assert torch.equal(losses.detach(), -advantages) and torch.equal(policy.grad, -advantages)
    assert not is_clipped.any()


def test_no_gradient_reaches_the_old_logprobs_or_the_advantages():
    policy = torch.tensor([-1.0, -2.0], requires_grad=True)
    old, advantages = torch.tensor([-1.1, -1.0]), torch.tensor([1.0, -1.0])
    losses, _ = clipped_policy_loss(policy, old, advantages, DAPO)
    (gradient,) = torch.autograd.grad(losses.sum(), policy)
    assert gradient.abs().sum() > 0
    assert not old.requires_grad and not advantages.requires_grad


@pytest.mark.parametrize(
    ("policy", "reference", "expected"),
    [
        (-1.0, -1.0, 0.0),
        (-2.0, -1.0, math.e - 2),  # d = 1: e - 1 - 1 = 0.71828
        (-1.0, -2.0, 1 / math.e),  # d = -1: 1/e - 1 + 1 = 0.36788
    ],
)
def test_kl_k3_worked_examples(policy, reference, expected):
    estimate = kl_k3(torch.tensor([policy], dtype=torch.float64), torch.tensor([reference], dtype=torch.float64))
    assert estimate.item() == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.floats(-20, 0), st.floats(-20, 0)), min_size=1))
def test_kl_k3_is_never_negative_and_zero_only_at_equality(pairs):
    policy, reference = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    estimates = kl_k3(policy, reference)
    assert (estimates >= -1e-12).all()
    assert (estimates[(policy - reference).abs() > 1e-3] > 1e-8).all()
    assert torch.equal(kl_k3(policy, policy), torch.zeros_like(policy))


def test_kl_k3_averages_to_the_divergence_over_the_policys_own_tokens():
    policy = torch.log_softmax(torch.tensor([0.3, 1.2, -0.5, 0.0], dtype=torch.float64), dim=0)
    reference = torch.log_softmax(torch.tensor([1.0, -0.3, 0.4, 0.2], dtype=torch.float64), dim=0)
    exact = float((policy.exp() * (policy - reference)).sum())
    assert exact > 0.1
    assert float((policy.exp() * kl_k3(policy, reference)).sum()) == pytest.approx(exact, abs=1e-12)
