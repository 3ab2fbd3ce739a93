from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sara.simulation.exact import (
    BoundaryPair,
    cheapest_pair,
    ds_costs,
    expected_chunks,
    fill_costs,
    round_ends,
    stop_costs,
    threshold_boundaries,
)
from sara.simulation.mixtures import POPULATIONS, RateMixture

SIZES = (8, 16, 32, 64)
shapes = st.floats(0.05, 20)
mixtures = st.builds(
    lambda alpha, beta, weights: RateMixture.of(
        [
            {"weight": weights[0], "alpha": alpha, "beta": beta},
            {"weight": weights[1], "rate": 0},
            {"weight": weights[2], "rate": 0.5},
            {"weight": weights[3], "rate": 1},
        ]
    ),
    shapes,
    shapes,
    st.tuples(st.floats(0.1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)


def saved(mixture: RateMixture, k: int, boundaries: BoundaryPair) -> float:
    """Share of DS's rollouts that the boundaries save, for each effective group."""
    return float(1 - fill_costs(mixture, k, *boundaries).rollouts_per_group / ds_costs(mixture, k).rollouts_per_group)


def test_three_rollouts_at_an_even_chance_by_hand():
    """k = 3, r = 1/2, abandoned after 2 fails (chance 1/4) or 3 passes (1/8): committed 5/8 of the time, and
    2/4 + 3/8 + 3 * 5/8 = 2.75 rollouts. Right ones, half of them by symmetry of each draw: 1.375. At k, 6/8 are mixed,
    so 1 - (5/8)/(6/8) = 1/6 are lost. Trained on: 1.375 - 3/8 = 1 right of 15/8."""
    costs = fill_costs(RateMixture.of([{"rate": 0.5}]), 3, 2, 3, tokens_right=10, tokens_wrong=20)
    assert costs.rollouts == pytest.approx(2.75)
    assert costs.tokens == pytest.approx(1.375 * 10 + 1.375 * 20)
    assert costs.effective == pytest.approx(5 / 8)
    assert costs.lost == pytest.approx(1 / 6)
    assert costs.trained_rate == pytest.approx(8 / 15)
    assert costs.rollouts_per_group == pytest.approx(4.4)


@given(
    mixture=mixtures,
    k=st.sampled_from([3, 8]),
    fails=st.integers(1, 8),
    passes=st.integers(1, 8),
    pace=st.tuples(st.integers(1, 8), st.integers(1, 4)),
)
def test_audits_of_every_abandoned_prompt_leave_nothing_lost(mixture, k, fails, passes, pace):
    """In fill mode that is dynamic sampling; half of them costs half of the way there, in both modes."""
    pair, probe = BoundaryPair(min(fails, k), min(passes, k)), min(pace[0], k)
    whole = ds_costs(mixture, k, 2.0, 3.0)
    np.testing.assert_allclose(fill_costs(mixture, k, *pair, 2.0, 3.0, audit_rate=1.0), whole, rtol=1e-9, atol=1e-9)
    none, half, every = (stop_costs(mixture, k, pair, probe, pace[1], 2.0, 3.0, rate) for rate in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(half[:4], (np.array(none[:4]) + np.array(every[:4])) / 2, rtol=1e-9, atol=1e-9)
    assert every.lost == pytest.approx(0, abs=1e-9) and every.rollouts <= k + 1e-9


def test_an_audit_by_hand():
    """k = 3, r = 1/2 as above, every second of those abandoned after 2 fails (1/4) run on: 1/8 more rollouts, of which
    half are right and turn the group: 1/16 more are effective, with a right one of three each."""
    costs = fill_costs(RateMixture.of([{"rate": 0.5}]), 3, 2, 3, audit_rate=0.5)
    assert costs.rollouts == pytest.approx(2.75 + 1 / 8)
    assert costs.effective == pytest.approx(5 / 8 + 1 / 16)
    assert costs.lost == pytest.approx(1 / 12)
    assert costs.trained_rate == pytest.approx((1 + 1 / 16) / (15 / 8 + 3 / 16))


@pytest.mark.parametrize(
    ("population", "fixed"),
    [
        ("saturated", (17, 21, 22, 21)),
        ("hard", (22, 28, 30, 31)),
        ("uniform", (-4, -1, 0, 0)),
    ],
)
def test_what_a_fixed_threshold_of_one_half_saves(population, fixed):
    mixture = POPULATIONS[population]
    assert tuple(round(100 * saved(mixture, k, threshold_boundaries(k, 0.5))) for k in SIZES) == fixed


def test_what_the_best_boundaries_save_when_most_rates_are_near_zero_or_one():
    mixture = POPULATIONS["saturated"]
    assert float(ds_costs(mixture, 8).rollouts_per_group) / 8 == pytest.approx(3.70, abs=0.01)
    assert [cheapest_pair(mixture, k) for k in SIZES] == [BoundaryPair(2, 6)] * 4
    assert [round(100 * saved(mixture, k, BoundaryPair(2, 6))) for k in SIZES] == [28, 38, 44, 46]


def test_nothing_beats_dynamic_sampling_when_rates_are_spread_evenly():
    assert [cheapest_pair(POPULATIONS["uniform"], k) for k in SIZES] == [BoundaryPair(k, k) for k in SIZES]


def sequences(k: int, mode: str, checks, fails: int, passes: int):
    """(outcomes drawn, whether committed) for every sequence of k outcomes: the rule, played out."""
    for outcomes in product((0, 1), repeat=k):
        for n in checks:
            s = sum(outcomes[:n])
            if 0 < s < n:
                yield outcomes, (k if mode == "fill" else n), True
                break
            if n >= (fails if s == 0 else passes):
                yield outcomes, n, False
                break


@pytest.mark.parametrize("mode", ["fill", "stop"])
@pytest.mark.parametrize(
    ("k", "probe", "increment", "fails", "passes"),
    [(8, 4, 4, 4, 4), (7, 1, 1, 2, 5), (6, 2, 3, 5, 6), (6, 6, 1, 6, 6), (5, 1, 1, 1, 5), (5, 2, 2, 3, 1)],
)
def test_costs_are_the_sums_over_all_sequences(mode, k, probe, increment, fails, passes):
    mixture = RateMixture.of([{"weight": 2, "rate": 0.3}, {"rate": 0.9}, {"weight": 0.5, "rate": 0}])
    rates, weights = np.array([0.3, 0.9, 0.0]), np.array([2, 1, 0.5]) / 3.5
    checks = round_ends(k, probe, increment)
    fails, passes = (int(checks[checks >= boundary][0]) for boundary in (fails, passes))
    rollouts = tokens = effective = trained = trained_right = 0.0
    for outcomes, n, is_committed in sequences(k, mode, checks, fails, passes):
        chance = float((weights * rates ** sum(outcomes) * (1 - rates) ** (k - sum(outcomes))).sum())
        s = sum(outcomes[:n])
        rollouts += chance * n
        tokens += chance * (3 * s + 7 * (n - s))
        effective += chance * is_committed
        trained += chance * is_committed * n
        trained_right += chance * is_committed * s
    if mode == "fill":
        costs = fill_costs(mixture, k, fails, passes, 3, 7)
    else:
        costs = stop_costs(mixture, k, BoundaryPair(fails, passes), probe, increment, 3, 7)
    assert costs.rollouts == pytest.approx(rollouts, rel=1e-12)
    assert costs.tokens == pytest.approx(tokens, rel=1e-12)
    assert costs.effective == pytest.approx(effective, rel=1e-12)
    assert costs.trained_rate == pytest.approx(trained_right / trained, rel=1e-12)


@given(mixtures, st.integers(2, 64), st.data())
def test_abandoning_earlier_draws_less_and_loses_more(mixture, k, data):
    fails, passes = (data.draw(st.integers(1, k)) for _ in range(2))
    early, late = fill_costs(mixture, k, fails, passes), ds_costs(mixture, k)
    assert early.rollouts <= late.rollouts * (1 + 1e-12)
    assert early.effective <= late.effective + 1e-12
    assert -1e-9 <= early.lost <= 1 + 1e-12
    assert late.rollouts == pytest.approx(k) and late.lost == 0


@given(mixtures, st.integers(2, 24), st.floats(0, 1))
@settings(max_examples=40)
def test_the_best_boundaries_cost_no_more_than_any_threshold_under_the_same_cap(mixture, k, max_lost):
    best = cheapest_pair(mixture, k, max_lost)
    costs = fill_costs(mixture, k, *best)
    assert costs.lost <= max_lost + 1e-9
    for tau_low in (0, 0.2, 0.5, 0.8):
        fixed = fill_costs(mixture, k, *threshold_boundaries(k, tau_low))
        if fixed.lost <= max_lost:
            assert costs.rollouts_per_group <= fixed.rollouts_per_group * (1 + 1e-9)


@given(mixtures, st.integers(2, 32), st.data())
def test_stopping_at_the_commit_never_costs_more_than_filling(mixture, k, data):
    probe, increment = (data.draw(st.integers(1, k)) for _ in range(2))
    tau_low, tokens = data.draw(st.floats(0, 0.99)), (3.0, 7.0)
    boundaries = threshold_boundaries(k, tau_low, probe=probe, increment=increment)
    stop, fill = (
        stop_costs(mixture, k, boundaries, probe, increment, *tokens),
        fill_costs(mixture, k, *boundaries, *tokens),
    )
    assert stop.rollouts <= fill.rollouts * (1 + 1e-12) and stop.tokens <= fill.tokens * (1 + 1e-12)
    assert stop.effective == pytest.approx(fill.effective)


@given(mixtures, st.integers(2, 64), st.data())
def test_swapping_right_and_wrong_swaps_the_boundaries(mixture, k, data):
    fails, passes = (data.draw(st.integers(1, k)) for _ in range(2))
    mirrored = RateMixture(
        mixture.beta_weights, mixture.betas, mixture.alphas, mixture.point_weights, 1 - mixture.points
    )
    here, there = fill_costs(mixture, k, fails, passes, 2, 5), fill_costs(mirrored, k, passes, fails, 5, 2)
    assert here.tokens == pytest.approx(there.tokens)
    assert here.effective == pytest.approx(there.effective, abs=1e-13)


def test_costs_stay_finite_and_right_at_the_largest_group():
    """Rates near 1 only: an all-pass start must be told from an effective group 1,024 rollouts later."""
    mixture = RateMixture.beta(5000, 1)
    at_k = 1 - 5000 / (5000 + 1024)  # E[1 - r^k]; straight failures have a chance below 1e-300
    assert ds_costs(mixture, 1024).effective == pytest.approx(at_k, rel=1e-9)
    assert np.isfinite(fill_costs(mixture, 1024, 2, 1000).rollouts_per_group)


def test_a_population_without_an_effective_prompt_costs_infinitely_much():
    costs = ds_costs(RateMixture.of([{"rate": 0}, {"rate": 1}]), 8)
    assert costs.effective == 0 and costs.rollouts_per_group == np.inf and np.isnan(costs.trained_rate)
    assert cheapest_pair(RateMixture.of([{"rate": 0}]), 8) == BoundaryPair(8, 8)


def test_a_threshold_takes_effect_at_the_end_of_a_round():
    """p_eff = (8 - n) / 9 with the uniform prior: below 0.5 from n = 4 on, first seen at n = 6 after a probe of 3."""
    assert threshold_boundaries(8, 0.5) == (4, 4)
    assert threshold_boundaries(8, 0.5, probe=3, increment=3) == (6, 6)
    assert threshold_boundaries(8, 1 / 9) == (8, 8)
    assert threshold_boundaries(8, 0.4, alpha0=0.1, beta0=0.3) == (
        1,
        2,
    )  # p_eff 0.196 after a fail, 0.496 and 0.358 after 1 and 2 passes


def test_expected_chunks_is_the_mean_of_the_first_time_the_target_is_reached():
    """B = 1, one prompt a chunk: the mean of a geometric variable, cut at the cap."""
    assert expected_chunks(0.25, 1, 1, 10_000) == pytest.approx(4)
    assert expected_chunks(0.25, 1, 1, 3) == pytest.approx(1 * 0.25 + 2 * 0.1875 + 3 * 0.5625)
    counts = np.cumsum(np.random.default_rng(0).binomial(16, 0.27, (20_000, 40)), axis=1)
    simulated = (counts < 16).sum(axis=1) + 1
    assert expected_chunks(0.27, 16, 16, 40) == pytest.approx(simulated.mean(), abs=4 * simulated.std() / 141)
    assert expected_chunks(0.0, 4, 4, 7) == 7
    assert binom.cdf(3, 0, 0.5) == 1  # what the first chunk rests on


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fill_costs(POPULATIONS["uniform"], 8, 0, 4), r"fails = 0; expected whole numbers in 1\.\.k = 8"),
        (lambda: fill_costs(POPULATIONS["uniform"], 8, 4, 9), r"passes = 9; expected whole numbers"),
        (lambda: fill_costs(POPULATIONS["uniform"], 8, 4.0, 4), r"fails = 4\.0; expected whole"),
        (lambda: round_ends(8, 9, 1), r"probe = 9, increment = 1; expected 1 <= probe <= k = 8"),
    ],
)
def test_boundaries_outside_the_group_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
