"""The exact averages: by hand, and against the collection loop driven over every order there is."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation import DynamicSamplingAllocator, SequentialAllocator
from sara.replay import drive
from sara.replay.expectation import StoppingPoints, expect, stopping_points


def sara(k: int, **options) -> SequentialAllocator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # settings that save nothing are wanted here
        return SequentialAllocator(k, **({"audit_rate": 0.0} | options))  # a log cannot say what an audit draws


def test_one_right_of_four_by_hand():
    # k = 4, probe 2: p_eff after two equal outcomes is (4 - 2) / 5 = 0.4 < 0.5, so both sides are dropped at 2.
    points = stopping_points(sara(4, tau_low=0.5, probe=2, increment=2))
    assert points == StoppingPoints(k=4, checkpoints=(2,), fail=2, passed=2, is_filled=True)
    # The first two are wrong in C(3, 2) / C(4, 2) = 3 of 6 orders: 2 rollouts, none right. Else 4 rollouts, 1 right.
    found = expect(np.array([4]), np.array([1]), points)
    assert [found.drawn[0], found.right[0], found.kept[0]] == pytest.approx([3.0, 0.5, 0.5])
    assert [found.effective[0], found.early[0], found.lost[0]] == pytest.approx([1.0, 0.5, 0.5])
    assert found.done_by[0] == pytest.approx([0.5, 1.0])  # when kept, round 2 fills it


def test_more_rollouts_than_k_by_hand():
    # 6 rollouts, 2 right, k = 4, dropped at 2: wrong twice in C(4, 2) / C(6, 2) = 6 / 15, right twice in 1 / 15.
    # All four wrong in C(4, 4) / C(6, 4) = 1 / 15, all four right in none.
    found = expect(np.array([6]), np.array([2]), stopping_points(sara(4, tau_low=0.5, probe=2, increment=2)))
    assert found.kept[0] == pytest.approx(8 / 15)
    assert found.effective[0] == pytest.approx(14 / 15)
    assert found.lost[0] == pytest.approx(6 / 15)  # 5 / 15 of the failing, 1 / 15 of the passing
    assert found.drawn[0] == pytest.approx(2 * 7 / 15 + 4 * 8 / 15)


def test_both_sides_stop_where_the_allocator_stops():
    allocator = sara(16, tau_low=0.5, probe=1, increment=1, alpha0=3.0, beta0=1.0)
    points = stopping_points(allocator)
    assert points.fail != points.passed
    assert points.fail == 1 + np.argmax(allocator.stopping.is_hopeless(np.arange(1, 17), np.zeros(16, dtype=int)))
    assert points.passed == 1 + np.argmax(allocator.stopping.is_hopeless(np.arange(1, 17), np.arange(1, 17)))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_driving_the_loop_over_every_order_gives_the_expectation(make_log, data):
    size = data.draw(st.integers(2, 5), "rollouts")
    k = data.draw(st.integers(2, size), "k")
    rewards = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size), "rewards"))
    lengths = np.array(data.draw(st.lists(st.integers(1, 99), min_size=size, max_size=size), "lengths"))
    allocator = data.draw(
        st.builds(
            sara,
            st.just(k),
            tau_low=st.floats(0, 0.99),
            probe=st.integers(1, k),
            increment=st.integers(1, 3),
            alpha0=st.sampled_from([0.3, 1.0, 3.0]),
            beta0=st.sampled_from([0.3, 1.0, 3.0]),
            on_commit=st.sampled_from(["fill", "stop"]),
        )
        | st.just(DynamicSamplingAllocator(k)),
        "allocator",
    )
    orders = [list(order) for order in itertools.permutations(range(size))]
    each_a_step = np.arange(len(orders))
    log = make_log([rewards[o] for o in orders], [lengths[o] for o in orders], steps=each_a_step, prompts=each_a_step)
    found = expect(np.array([size]), np.array([rewards.sum()]), stopping_points(allocator))
    driven = drive(log, allocator)

    right, wrong = (lengths[rewards == reward].sum() / max((rewards == reward).sum(), 1) for reward in (1, 0))
    expected_length = found.right[0] * right + (found.drawn - found.right)[0] * wrong
    counts = [driven.rollouts, driven.effective, driven.abandoned, driven.false_abandoned, driven.lengths]
    expected = [found.drawn[0], found.kept[0], found.early[0], found.lost[0], expected_length]
    assert np.array(counts) / len(orders) == pytest.approx(np.array(expected), abs=1e-9)
    assert driven.rounds == pytest.approx(1 + (1 - found.done_by).sum(), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    k=st.integers(2, 32),
    extra=st.integers(0, 8),
    tau=st.floats(0, 0.99),
    probe=st.integers(1, 32),
    on_commit=st.sampled_from(["fill", "stop"]),
)
def test_expectations_are_chances_and_add_up(k, extra, tau, probe, on_commit):
    sizes = np.full(k + extra + 1, k + extra)
    successes = np.arange(k + extra + 1)
    allocator = sara(k, tau_low=tau, probe=min(probe, k), increment=min(probe, k), on_commit=on_commit)
    found = expect(sizes, successes, stopping_points(allocator))
    for chance in (found.kept, found.effective, found.early, found.lost, *found.done_by.T):
        assert (chance > -1e-12).all() and (chance < 1 + 1e-12).all()
    assert found.kept + found.lost == pytest.approx(found.effective)
    assert (found.lost <= found.early + 1e-12).all()
    assert (found.drawn <= k + 1e-9).all() and (found.right <= found.drawn + 1e-12).all()
    assert (np.diff(found.done_by, axis=1) > -1e-12).all()
    mirrored = expect(sizes, sizes - successes, stopping_points(allocator))  # a uniform prior takes no side
    assert mirrored.drawn == pytest.approx(found.drawn)
    assert mirrored.right == pytest.approx(found.drawn - found.right)


@settings(max_examples=50, deadline=None)
@given(k=st.integers(2, 64), probe=st.integers(1, 64), data=st.data())
def test_a_threshold_of_at_most_one_over_k_plus_one_is_ds_exactly(k, probe, data):
    tau = data.draw(st.floats(0, 1 / (k + 1)))
    probe = min(probe, k)
    sizes, successes = np.full(k + 1, k), np.arange(k + 1)
    found = expect(sizes, successes, stopping_points(sara(k, tau_low=tau, probe=probe, increment=probe)))
    ds = expect(sizes, successes, stopping_points(DynamicSamplingAllocator(k)))
    assert found.drawn == pytest.approx(np.full(k + 1, k))
    assert ds.drawn == pytest.approx(np.full(k + 1, k))
    assert found.kept.tolist() == ds.kept.tolist() == ((successes > 0) & (successes < k)).tolist()
    assert not found.early.any() and not found.lost.any()


def test_known_savings_on_a_population_of_rates():
    # Exact enumeration for fill mode, tau_low = 0.5, rates from Beta(0.1, 0.3): 17, 21 and 22% of DS's rollouts saved
    # at k = 8, 16, 32, and for uniform rates a loss of 4% at k = 8. Here from the chances of S successes in k.
    from scipy.stats import betabinom

    def cost(k: int, a: float, b: float) -> float:
        sizes, successes = np.full(k + 1, k), np.arange(k + 1)
        weights = betabinom.pmf(successes, k, a, b)
        found = expect(sizes, successes, stopping_points(sara(k, tau_low=0.5, probe=k // 2, increment=k // 2)))
        ds = weights @ found.effective
        return (weights @ found.drawn / (weights @ found.kept)) / (k / ds)

    assert [1 - cost(k, 0.1, 0.3) for k in (8, 16, 32)] == pytest.approx([0.17, 0.21, 0.22], abs=0.006)
    assert cost(8, 1, 1) == pytest.approx(1.04, abs=0.006)
