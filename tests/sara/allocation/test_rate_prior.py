from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation.moments import RateMoments, beta_moments
from sara.allocation.outcome_table import OutcomeTable
from sara.allocation.rate_prior import RatePrior
from sara.simulation.mixtures import RateMixture

K = 8
THREE_RATES = [{"weight": 0.5, "rate": 0}, {"weight": 0.3, "rate": 0.3}, {"weight": 0.2, "rate": 0.9}]
HARD = [{"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2}]
SATURATED = [{"alpha": 0.1, "beta": 0.3}]


def observe(rates, boundaries, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, s and tokens of prompts that are abandoned at `boundaries` (all-fail, all-pass) and else run on to K."""
    right = (rng.random((rates.size, K)) < rates[:, None]).cumsum(axis=1)  # (P, K) successes so far
    n = np.full(rates.size, K)
    all_fail, all_pass = boundaries
    n[right[:, all_fail - 1] == 0] = all_fail
    n[right[:, all_pass - 1] == all_pass] = all_pass
    return n, right[np.arange(rates.size), n - 1], n


def learned(mixture, boundaries, prompts, seed, fits=4) -> RateMoments:
    rng = np.random.default_rng(seed)
    table, prior = OutcomeTable(K, 1.0), RatePrior(K)
    table.record(*observe(mixture.sample(prompts, rng), boundaries, rng))
    for _ in range(fits):
        prior.fit(table.cells)
    return prior.moments()


@pytest.mark.parametrize("components", [THREE_RATES, HARD, SATURATED])
@pytest.mark.parametrize(("boundaries", "bias"), [((K, K), 0.003), ((4, K), 0.006), ((2, 6), 0.012)])
def test_a_known_mixture_is_recovered_from_abandoned_prefixes_as_well(components, boundaries, bias):
    """The chances of every all-fail and all-pass prefix up to K, after 40,000 prompts.

    A chance near 1/2 has a standard error of 0.0025 if it is counted, and about that here (measured over seeds: 0.0010
    to 0.0030). Where all-fail prefixes are abandoned after 2, what would have followed is known only through the
    prompts that passed one of the two; the start (four prompts of uniform rates) and the end of EM then leave a bias.
    """
    mixture = RateMixture.of(components)
    n = np.arange(K + 1)
    got = learned(mixture, boundaries, 40_000, seed=0)
    np.testing.assert_allclose(got.all_fail[: K + 1], mixture.moment(0, n), rtol=0, atol=bias + 3 * 0.0025)
    np.testing.assert_allclose(got.all_pass[: K + 1], mixture.moment(n, 0), rtol=0, atol=bias + 3 * 0.0025)


def test_more_prompts_bring_the_estimate_closer():
    mixture = RateMixture.of(HARD)
    truth = mixture.moment(0, np.arange(K + 1))
    errors = []
    for prompts in (100, 1000, 10_000):
        found = [learned(mixture, (4, K), prompts, seed).all_fail[: K + 1] for seed in range(8)]
        errors.append(np.sqrt(np.mean((np.array(found) - truth) ** 2)))
    assert errors[1] < 0.6 * errors[0] and errors[2] < 0.6 * errors[1]  # the root of ten is 3.2


def test_before_anything_was_seen_the_prior_is_its_start():
    for alpha0, beta0 in [(1.0, 1.0), (0.1, 0.3), (4.0, 0.5)]:
        prior = RatePrior(K, alpha0, beta0)
        prior.fit(OutcomeTable(K, 1.0).cells)
        expected = beta_moments(K, alpha0, beta0)
        np.testing.assert_allclose(prior.moments().all_fail, expected.all_fail, rtol=0, atol=2e-3)  # the grid's width
        np.testing.assert_allclose(prior.moments().all_pass, expected.all_pass, rtol=0, atol=2e-3)


def test_forgetting_follows_a_policy_that_learns():
    """Prompts of rate 0.1 for 60 steps, then of rate 0.6: P(first rollout fails) moves from 0.9 to 0.4."""
    failing = {}
    for memory in (0.9, 1.0):
        rng, table, prior = np.random.default_rng(0), OutcomeTable(K, memory), RatePrior(K)
        for step in range(90):
            table.record(*observe(np.full(60, 0.1 if step < 60 else 0.6), (4, 6), rng))
            prior.fit(table.cells)
        failing[memory] = prior.moments().all_fail[1]
    # 30 steps keep 0.9^30 = 4% of what was known. Without forgetting two thirds of it is old: 0.73.
    assert failing[0.9] == pytest.approx(0.96 * 0.4 + 0.04 * 0.9, abs=0.03)
    assert failing[1.0] == pytest.approx(0.73, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.sampled_from([2, 5, 16]))
def test_a_fit_makes_what_was_seen_no_less_likely(seed, k):
    rng = np.random.default_rng(seed)
    table = OutcomeTable(k, 1.0)
    n = rng.integers(1, k + 1, 80)
    table.record(n, rng.binomial(n, rng.beta(0.2, 0.4, 80)), n)
    prior, cells = RatePrior(k, iterations=1), table.cells

    def log_posterior() -> float:
        """Of the counts, and of the four prompts' worth of the start that a fit is held to."""
        likelihood = prior.rates ** cells.s[:, None] * (1 - prior.rates) ** (cells.n - cells.s)[:, None]
        held = 4 * (prior.start * np.log(prior.weights)).sum()
        return (cells.count * np.log(likelihood @ prior.weights)).sum() + held

    values = [log_posterior()]
    for _ in range(15):
        prior.fit(cells)
        values.append(log_posterior())
    assert prior.weights.sum() == pytest.approx(1) and (prior.weights > 0).all()
    assert (np.diff(values) >= -1e-9).all() and values[-1] > values[0]


def test_the_order_of_prompts_does_not_matter():
    rng = np.random.default_rng(0)
    rows = np.stack(observe(rng.beta(0.1, 0.3, 500), (3, 6), rng))
    weights = []
    for order in (np.arange(500), rng.permutation(500)):
        table, prior = OutcomeTable(K, 0.9), RatePrior(K)
        table.record(*rows[:, order])
        prior.fit(table.cells)
        weights.append(prior.weights)
    np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize(("successes", "chances"), [(0, [0.0, 1.0]), (K, [1.0, 0.0])])
def test_streams_that_only_fail_or_only_pass_are_learned(successes, chances):
    table, prior = OutcomeTable(K, 1.0), RatePrior(K)
    table.record(np.full(2000, K), np.full(2000, successes), np.full(2000, K))
    for _ in range(4):
        prior.fit(table.cells)
    moments = prior.moments()
    assert (moments.all_pass[K], moments.all_fail[K]) == pytest.approx(chances, abs=0.01)
    assert 0 < moments.effective < 0.01


@pytest.mark.parametrize(("alpha0", "beta0"), [(1e-3, 1e6), (1e6, 1e-3), (1e-3, 1e-3), (1e5, 1e5)])
def test_no_start_however_extreme_keeps_the_prior_from_learning(alpha0, beta0):
    table, prior = OutcomeTable(1024, 1.0), RatePrior(1024, alpha0, beta0)
    table.record(np.full(3000, 1024), np.full(3000, 700), np.full(3000, 1024))
    for _ in range(3):
        prior.fit(table.cells)
    assert prior.moments().all_fail[1] == pytest.approx(1 - 700 / 1024, abs=0.02)


def test_a_prior_goes_on_where_it_was():
    rng = np.random.default_rng(0)
    table, prior, other = OutcomeTable(K, 1.0), RatePrior(K), RatePrior(K)
    table.record(*observe(rng.beta(0.1, 0.3, 300), (3, 6), rng))
    prior.fit(table.cells)
    state = prior.state_dict()
    other.load_state_dict(state)
    prior.fit(table.cells), other.fit(table.cells)
    np.testing.assert_array_equal(prior.weights, other.weights)
    assert (state["weights"] != prior.weights).any()  # a snapshot
