from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.losses import DIVERGENCES, kl_k1, kl_k2, kl_k3


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


def test_kl_k1_and_k2_worked_examples():
    # Policy -1, reference -3: k1 = 2, k2 = 2^2 / 2 = 2; the other way round -2 and 2.
    policy, reference = torch.tensor([-1.0, -3.0]), torch.tensor([-3.0, -1.0])
    assert kl_k1(policy, reference).tolist() == [2.0, -2.0]
    assert kl_k2(policy, reference).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", DIVERGENCES)
@given(st.lists(st.tuples(st.floats(-5, 0), st.floats(-5, 0)), min_size=1, max_size=10))
def test_the_gradients_are_the_slopes_by_finite_differences(name, pairs):
    policy, reference = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    assert torch.autograd.gradcheck(lambda p: DIVERGENCES[name](p, reference), policy.requires_grad_())


@given(st.lists(st.tuples(st.floats(-20, 0), st.floats(-20, 0)), min_size=1))
def test_kl_k3_is_never_negative_and_zero_only_at_equality(pairs):
    policy, reference = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    estimates = kl_k3(policy, reference)
    assert (estimates >= -1e-12).all()
    assert (estimates[(policy - reference).abs() > 1e-3] > 1e-8).all()
    assert torch.equal(kl_k3(policy, policy), torch.zeros_like(policy))


@given(st.lists(st.tuples(st.floats(-8, 0), st.floats(-8, 0)), min_size=1))
def test_the_estimators_agree_with_a_slow_loop(pairs):
    policy, reference = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    slow = {
        "k1": [p - r for p, r in pairs],
        "k2": [(p - r) ** 2 / 2 for p, r in pairs],
        "k3": [math.exp(r) / math.exp(p) - 1 - math.log(math.exp(r) / math.exp(p)) for p, r in pairs],
    }
    for name, expected in slow.items():
        assert DIVERGENCES[name](policy, reference).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("name", "share"), [("k1", 0.0), ("k2", 1.0)])
def test_as_a_loss_k2_has_the_gradient_of_the_divergence_and_k1_has_none(name, share):
    """In expectation over the policy's own tokens, whose distribution itself is not differentiated."""
    logits = torch.tensor([0.3, 1.2, -0.5, 0.0], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([1.0, -0.3, 0.4, 0.2], dtype=torch.float64), dim=0)
    policy = torch.log_softmax(logits, dim=0)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)
    (found,) = torch.autograd.grad((policy.exp().detach() * DIVERGENCES[name](policy, reference)).sum(), logits)
    assert exact.abs().max() > 0.1
    torch.testing.assert_close(found, share * exact, atol=1e-12, rtol=1e-12)


def test_kl_k3_averages_to_the_divergence_over_the_policys_own_tokens():
    policy = torch.log_softmax(torch.tensor([0.3, 1.2, -0.5, 0.0], dtype=torch.float64), dim=0)
    reference = torch.log_softmax(torch.tensor([1.0, -0.3, 0.4, 0.2], dtype=torch.float64), dim=0)
    exact = float((policy.exp() * (policy - reference)).sum())
    assert exact > 0.1
    assert float((policy.exp() * kl_k3(policy, reference)).sum()) == pytest.approx(exact, abs=1e-12)


def test_kl_k3_stays_finite_and_still_pulls_where_its_exponential_would_overflow():
    policy = torch.tensor([-100.0], requires_grad=True)
    estimate = kl_k3(policy, torch.zeros(1))
    estimate.sum().backward()
    assert torch.isfinite(estimate).all() and estimate.item() > 0
    assert torch.isfinite(policy.grad).all() and policy.grad.item() != 0
