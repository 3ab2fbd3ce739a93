"""The evidence against the counts it is drawn from: unbiased, with the errors it states, whatever was abandoned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation.boundaries import Boundaries, Objective, _Plans, appraise
from sara.allocation.evidence import demanded, gather
from sara.allocation.moments import RateMoments, mixture_moments
from sara.allocation.outcome_table import OutcomeTable
from sara.allocation.rate_prior import RatePrior


def table_of(rates, k, boundaries, rng, memory=1.0) -> OutcomeTable:
    """One step's prompts, abandoned at `boundaries` (all-fail, all-pass), the others run on to k."""
    right = (rng.random((rates.size, k)) < rates[:, None]).cumsum(axis=1)
    n = np.full(rates.size, k)
    for boundary, is_saturated in zip(boundaries, (lambda r, m: r == 0, lambda r, m: r == m), strict=True):
        n[is_saturated(right[:, boundary - 1], boundary)] = boundary
    table = OutcomeTable(k, memory)
    table.record(n, right[np.arange(rates.size), n - 1], n)
    return table


def flat(k: int) -> np.ndarray:
    return np.full(k + 1, 1 / (k + 1))


def test_whole_groups_are_a_multinomial_by_hand():
    """k = 2: 30 prompts with 0 right, 20 with 1, 49 with 2, and a third of a prompt assumed of each: 100 in all.

    All-fail after 2 is pi_0 = 30.33 / 100, after 1 pi_0 + pi_1 / 2 = 40.5 / 100. Their variances are those of shares
    of 100 prompts: pi_0 (1 - pi_0) / 100, and for the second (pi_0 + pi_1 / 4 - 0.405^2) / 100.
    """
    table = OutcomeTable(2, 1.0)
    table.record(np.full(99, 2), np.repeat([0, 1, 2], [30, 20, 49]), np.full(99, 2))
    found = gather(table, flat(2))
    pi = np.array([30, 20, 49]) / 100 + 1 / 300
    np.testing.assert_allclose(found.moments.all_fail[:3], [1, pi[0] + pi[1] / 2, pi[0]], rtol=1e-12)
    np.testing.assert_allclose(found.moments.all_pass[:3], [1, pi[2] + pi[1] / 2, pi[2]], rtol=1e-12)
    variances = (found.deviations.all_fail**2).sum(axis=0)[:3]
    expected = [0, pi[0] + pi[1] / 4 - (pi[0] + pi[1] / 2) ** 2, pi[0] * (1 - pi[0])]
    np.testing.assert_allclose(variances, np.array(expected) / 100, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("boundaries", [(8, 8), (4, 8), (3, 5)])
@pytest.mark.parametrize("rates", [(0.02, 0.98), (0.0, 0.1), (0.1, 0.5)])
def test_estimates_are_unbiased_and_waver_as_they_say(rates, boundaries):
    """Over 200 tables of 1,000 prompts: the mean within 4 of its standard errors, the spread within a fifth.

    The relative spread of 200 has itself a standard error of 5%.
    """
    k, num = 8, 200
    found, variances = [], []
    for seed in range(num):
        rng = np.random.default_rng(seed)
        evidence = gather(table_of(rng.choice(rates, 1000), k, boundaries, rng), flat(k))
        found.append(np.concatenate([of[1 : k + 1] for of in evidence.moments]))
        variances.append(np.concatenate([(of**2).sum(axis=0)[1 : k + 1] for of in evidence.deviations]))
    truth = mixture_moments(k, np.array(rates), np.array([0.5, 0.5]))
    truth = np.concatenate([of[1 : k + 1] for of in truth])
    stated, spread = np.sqrt(np.mean(variances, axis=0)), np.std(found, axis=0)
    pseudo = 1 / 1000  # a prompt of which every S is as likely
    assert (np.abs(np.mean(found, axis=0) - truth) < 4 * stated / np.sqrt(num) + pseudo).all()
    is_seen = stated > 2e-3  # where a chance is about 0, what is assumed of a prompt is all there is
    np.testing.assert_allclose(spread[is_seen], stated[is_seen], rtol=0.2)


def test_evidence_does_not_lean_towards_abandoning_as_a_learned_prior_does():
    """Rates 0.02 and 0.98, k = 8: abandoning after 7 equal outcomes costs 0.9% more than never.

    Any prior fitted to few prompts spreads the rates out, and so expects it to cost half of that.
    """
    plan, moments = Boundaries(7, 7, 1, 1), mixture_moments(8, np.array([0.02, 0.98]), np.array([0.5, 0.5]))

    def gain(of: RateMoments) -> float:
        appraisal = appraise(plan, of)
        return np.log(8 / of.effective * appraisal.value / appraisal.cost)

    learned, observed = [], []
    for seed in range(40):
        rng, prior = np.random.default_rng(seed), RatePrior(8)
        table = table_of(rng.choice([0.02, 0.98], 2000), 8, (8, 8), rng)
        prior.fit(table.cells)
        learned.append(gain(prior.moments()))
        observed.append(gain(gather(table, prior.chances()).moments))
    assert gain(moments) == pytest.approx(-0.0088, abs=5e-5)
    assert np.mean(observed) == pytest.approx(gain(moments), abs=0.0015)
    assert np.mean(learned) > 0.6 * gain(moments)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([2, 5, 8]),
    on_commit=st.sampled_from(["fill", "stop"]),
    value=st.sampled_from(["groups", "signal"]),
    pace=st.sampled_from([(None, None), (1, 1), (2, 3)]),
    lengths=st.sampled_from([(1.0, 1.0), (1.0, 3.0)]),
)
def test_the_error_of_a_gain_is_that_of_its_deviations_by_finite_differences(seed, k, on_commit, value, pace, lengths):
    rng, step = np.random.default_rng(seed), 1e-6
    evidence = gather(table_of(rng.beta(0.4, 0.6, 300), k, (max(k // 2, 1), k), rng), flat(k))
    objective = Objective(value, on_commit)
    plans = _Plans(evidence.moments, objective, *pace, lengths)
    gains, errors = plans.gains(evidence.deviations)
    assert gains[plans.is_lossless].max() == pytest.approx(0)
    base = np.unravel_index(np.argmax(np.where(plans.is_lossless, plans.value / plans.cost, 0)), gains.shape)
    variance = np.zeros_like(gains)
    for off in zip(*evidence.deviations, strict=True):
        moved = RateMoments(*(of + step * by for of, by in zip(evidence.moments, off, strict=True)))
        other = _Plans(moved, objective, *pace, lengths)
        rate = np.maximum(other.value, 1e-12) / other.cost
        variance += ((np.log(rate / rate[base]) - gains) / step) ** 2
    is_worth = plans.value > 1e-2
    np.testing.assert_allclose(errors[is_worth], np.sqrt(variance)[is_worth], rtol=1e-3, atol=1e-5)


def test_faded_steps_count_for_what_they_still_tell():
    """Memory 1/2, three steps: weights 1/4, 1/2, 1; (7/4)^2 / (21/16) = 7/3 steps, and 21/16 / (7/4) = 3/4 a count."""
    table = OutcomeTable(4, 0.5)
    for _ in range(3):
        table.record(np.full(8, 4), np.arange(8) % 5, np.full(8, 4))
    assert table.num_steps == pytest.approx(7 / 3) and table.mean_weight == pytest.approx(3 / 4)
    kept = OutcomeTable(4, 1.0)
    for _ in range(3):
        kept.record(np.full(8, 4), np.arange(8) % 5, np.full(8, 4))
    assert kept.num_steps == 3 and kept.mean_weight == 1


@pytest.mark.parametrize("memory", [0.8, 0.95])
def test_faded_counts_waver_as_they_say(memory):
    """Thirty steps of 100 prompts, 200 times: the spread of all-fail after 2 is what is stated, within a fifth."""
    found, stated = [], []
    for seed in range(200):
        rng, table = np.random.default_rng(seed), OutcomeTable(4, memory)
        for _ in range(30):
            table.record(np.full(100, 4), rng.binomial(4, rng.choice([0.0, 0.3], 100)), np.full(100, 4))
        evidence = gather(table, flat(4))
        found.append(evidence.moments.all_fail[2])
        stated.append((evidence.deviations.all_fail[:, 2] ** 2).sum())
    assert np.std(found) == pytest.approx(np.sqrt(np.mean(stated)), rel=0.2)


def test_more_evidence_is_demanded_of_few_steps():
    """1.75 standard errors of one step; 1.75 / 5^(1/4) = 1.170 of five; 1 from 1.75^4 = 9.4 steps on."""
    assert [demanded(steps) for steps in (1, 5, 9.5, 40)] == pytest.approx([1.75, 1.170, 1, 1], abs=5e-4)


@pytest.mark.parametrize("k", [2, 64, 1024])
@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_evidence_from_pools_of_one_rate_and_large_groups_is_finite(k, rate):
    rng = np.random.default_rng(0)
    evidence = gather(table_of(np.full(50, rate), k, (max(k // 2, 1), k), rng), flat(k))
    for of in (*evidence.moments, *evidence.deviations):
        assert np.isfinite(of).all()
    assert evidence.moments.all_fail[k] == pytest.approx((1 - rate) ** k, abs=0.08)
