"""The optimiser, against dynamic programming, another enumeration, and the figures that must be reproduced."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from sara.allocation.boundaries import Boundaries, Objective, appraise, best_boundaries
from sara.allocation.evidence import gather
from sara.allocation.moments import RateMoments, beta_moments, mixture_moments
from sara.allocation.outcome_table import OutcomeTable
from sara.simulation import exact
from sara.simulation.mixtures import RateMixture

HARD = [{"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2}]


def moments_of(mixture: RateMixture, k: int) -> RateMoments:
    n = np.arange(k + 3)
    return RateMoments(mixture.moment(0, n), mixture.moment(n, 0))


def per_value(boundaries: Boundaries, moments: RateMoments, *args) -> float:
    appraisal = appraise(boundaries, moments, *args)
    return appraisal.cost / appraisal.value


def threshold(k: int, tau_low: float) -> Boundaries:
    """Where a fixed threshold under the uniform prior abandons, looking after each rollout."""
    first = next(n for n in range(1, k + 1) if (k - n) / (k + 1) < tau_low)
    return Boundaries(first, first, 1, 1)


@st.composite
def mixtures(draw):
    weight, rate, shape = st.floats(0.05, 1), st.floats(0, 1), st.floats(0.05, 3)
    points = draw(st.lists(st.fixed_dictionaries({"weight": weight, "rate": rate}), max_size=3))
    betas = st.fixed_dictionaries({"weight": weight, "alpha": shape, "beta": shape})
    return RateMixture.of(points + draw(st.lists(betas, min_size=1, max_size=2)))


# ---------------------------------------------------------------------------------------- figures to be reproduced


@pytest.mark.parametrize(
    ("components", "k", "saved_at_half", "saved_at_best"),
    [
        ([{"alpha": 0.1, "beta": 0.3}], 8, 17, 28),
        ([{"alpha": 0.1, "beta": 0.3}], 16, 21, 38),
        ([{"alpha": 0.1, "beta": 0.3}], 32, 22, 44),
        ([{"alpha": 0.1, "beta": 0.3}], 64, 21, 46),
        (HARD, 8, 22, None),
        (HARD, 16, 28, None),
        (HARD, 32, 30, None),
        (HARD, 64, 31, None),
        ([{"alpha": 1, "beta": 1}], 8, -4, 0),
    ],
)
def test_what_is_saved_of_the_rollouts_of_dynamic_sampling(components, k, saved_at_half, saved_at_best):
    """Percent, rounded; 65% zeros at k = 64 is 31.48."""
    moments = moments_of(RateMixture.of(components), k)
    ds = k / moments.effective
    assert round(100 * (1 - per_value(threshold(k, 0.5), moments) / ds)) == saved_at_half
    if saved_at_best is not None:
        assert round(100 * (1 - per_value(best_boundaries(moments), moments) / ds)) == saved_at_best


def test_the_unconstrained_optimum_drops_hard_prompts_after_two_failures():
    assert best_boundaries(beta_moments(8, 0.1, 0.3))[:2] == (2, 6)


@pytest.mark.parametrize("k", [2, 8, 16, 64])
def test_where_abandonment_does_not_pay_the_best_is_dynamic_sampling(k):
    assert best_boundaries(beta_moments(k, 1, 1), Objective(), 1, 1)[:2] == (k, k)
    assert best_boundaries(beta_moments(k, 1, 1)) == (k, k, k // 2, k)  # half-way, surplus can be told


def test_in_stop_mode_giving_up_pays_even_for_uniform_rates():
    """Groups are cheap there. Looking after each rollout, k = 8, abandoning after n equal ones: each of the looks 1 to
    n - 1 costs a rollout with chance 2 / (i + 1), and 1 - 2 / (n + 1) of the prompts commit. In rollouts for a group:
    n = 3: (1 + 1 + 2/3) / (1/2) = 16/3; n = 4: (8/3 + 1/2) / (3/5) = 95/18; n = 5: (19/6 + 2/5) / (2/3) = 107/20."""
    moments, objective = beta_moments(8, 1, 1), Objective(on_commit="stop")
    costs = [per_value(Boundaries(n, n, 1, 1), moments, objective) for n in (3, 4, 5)]
    assert costs == pytest.approx([16 / 3, 95 / 18, 107 / 20])
    assert best_boundaries(moments, objective, 1, 1)[:2] == (4, 4)


# ------------------------------------------------------------------------------------- against dynamic programming


def best_rate_by_dynamic_programming(mixture, k, looks, objective, lengths) -> float:
    """The most value per unit cost: the rate at which an opened prompt is worth exactly nothing, by bisection.

    Backward induction over every (n, s), one rollout at a time, with the predictive chance of each. A mixed prefix
    is drawn up to k in fill mode and ends at the next look in stop mode; a saturated one may be abandoned at looks.
    """
    right, wrong = lengths

    def chance(n, s):
        seen = mixture.moment(s, n - s)
        return float(mixture.moment(s + 1, n - s) / seen) if seen > 0 else 0.0

    chances = {(n, s): chance(n, s) for n in range(k) for s in range(n + 1)}

    def worth(rate):
        @cache
        def of(n, s):
            is_mixed = 0 < s < n
            if is_mixed and (n == k or (objective.on_commit == "stop" and n in looks)):
                return s / n * (1 - s / n) if objective.value == "signal" else 1.0
            if n == k:
                return 0.0
            p = chances[n, s]
            go_on = p * (of(n + 1, s + 1) - rate * right) + (1 - p) * (of(n + 1, s) - rate * wrong)
            return max(go_on, 0.0) if n in looks and not is_mixed else go_on

        return of(0, 0)

    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if worth(middle) > 0 else (low, middle)
    return low


@settings(max_examples=40, deadline=None)
@given(
    mixture=mixtures(),
    k=st.integers(2, 9),
    pace=st.tuples(st.integers(1, 9), st.integers(1, 4)),
    value=st.sampled_from(["groups", "signal"]),
    on_commit=st.sampled_from(["fill", "stop"]),
    lengths=st.sampled_from([(1.0, 1.0), (1.0, 3.0), (2.0, 0.7)]),
)
def test_enumeration_is_as_good_as_dynamic_programming(mixture, k, pace, value, on_commit, lengths):
    probe, increment = min(pace[0], k), pace[1]
    objective, moments = Objective(value, on_commit), moments_of(mixture, k)
    looks = {*range(probe, k, increment), k}
    expected = best_rate_by_dynamic_programming(mixture, k, looks, objective, lengths)
    best = best_boundaries(moments, objective, probe, increment, lengths)
    assert {best.all_fail, best.all_pass} <= looks and (best.probe, best.increment) == (probe, increment)
    appraisal = appraise(best, moments, objective, lengths)
    assert appraisal.value / appraisal.cost == pytest.approx(expected, rel=1e-9, abs=1e-12)


# -------------------------------------------------------------------------------- against the simulator's enumeration


@given(mixture=mixtures(), k=st.sampled_from([2, 5, 16]), cap=st.floats(0, 1), fails=st.integers(1, 16))
def test_appraisal_and_optimum_agree_with_the_enumeration_of_the_simulator(mixture, k, cap, fails):
    moments, fails = moments_of(mixture, k), min(fails, k)
    costs = exact.fill_costs(mixture, k, fails, k, 2.0, 3.0)
    got = appraise(Boundaries(fails, k, 1, 1), moments, lengths=(2.0, 3.0))
    assert got.cost == pytest.approx(float(costs.tokens), rel=1e-9)
    assert got.value == pytest.approx(float(costs.effective), rel=1e-9, abs=1e-12)
    best = best_boundaries(moments, Objective(max_false_abandon=cap), 1, 1)
    other = Boundaries(*exact.cheapest_pair(mixture, k, max_lost=cap), 1, 1)
    assert per_value(best, moments) == pytest.approx(per_value(other, moments), rel=1e-9)
    assert appraise(best, moments).lost_share <= cap + 1e-9


@given(
    mixture=mixtures(),
    k=st.sampled_from([2, 5, 16]),
    pace=st.tuples(st.integers(1, 16), st.integers(1, 5)),
    fails=st.integers(1, 16),
    passes=st.integers(1, 16),
)
def test_appraisal_in_stop_mode_agrees_with_the_enumeration_of_the_simulator(mixture, k, pace, fails, passes):
    boundaries = Boundaries(min(fails, k), min(passes, k), min(pace[0], k), pace[1])
    costs = exact.stop_costs(mixture, k, exact.BoundaryPair(*boundaries[:2]), *boundaries[2:], 2.0, 3.0)
    got = appraise(boundaries, moments_of(mixture, k), Objective(on_commit="stop"), (2.0, 3.0))
    assert got.cost == pytest.approx(float(costs.tokens), rel=1e-9)
    assert got.value == pytest.approx(float(costs.effective), rel=1e-9, abs=1e-12)
    assert got.lost_share == pytest.approx(float(costs.lost), abs=1e-9)


# ------------------------------------------------------------------------------------------------------------ laws


@given(mixture=mixtures(), k=st.sampled_from([2, 8, 16, 32]), cap=st.sampled_from([0.1, 0.25, 0.6, 1.0]))
def test_the_optimum_never_costs_more_than_dynamic_sampling_or_a_threshold_with_the_same_cap(mixture, k, cap):
    moments = moments_of(mixture, k)
    best = best_boundaries(moments, Objective(max_false_abandon=cap))
    cost = per_value(best, moments)
    assert cost <= k / moments.effective * (1 + 1e-9)
    for tau_low in np.linspace(0.02, 0.98, 25):
        fixed = threshold(k, tau_low)
        if fixed[:2] != (1, 1) and appraise(fixed, moments).lost_share <= cap:
            assert cost <= per_value(fixed, moments) * (1 + 1e-9)


@given(mixture=mixtures(), k=st.sampled_from([2, 8, 16]), value=st.sampled_from(["groups", "signal"]))
def test_a_chosen_pace_costs_no_more_than_looking_after_every_rollout_in_fill_mode(mixture, k, value):
    objective, moments = Objective(value), moments_of(mixture, k)
    chosen, finest = best_boundaries(moments, objective), best_boundaries(moments, objective, 1, 1)
    assert per_value(chosen, moments, objective) == pytest.approx(per_value(finest, moments, objective), rel=1e-9)
    assert chosen.probe == (min(chosen[:2]) if min(chosen[:2]) < k else (k + 1) // 2)  # as late as it can
    assert chosen.at_looks(k) == chosen


@given(
    mixture=mixtures(),
    k=st.integers(2, 16),
    on_commit=st.sampled_from(["fill", "stop"]),
    most=st.integers(2, 5),
    fixed=st.sampled_from([(None, None), (2, None), (None, 3)]),
)
def test_a_chosen_pace_keeps_to_its_rounds(mixture, k, on_commit, most, fixed):
    best = best_boundaries(moments_of(mixture, k), Objective(on_commit=on_commit, max_rounds=most), *fixed)
    last = max(best[:2])
    rounds = 1 + -(-(last - best.probe) // best.increment) + (on_commit == "fill" and last < k)
    assert rounds <= most
    assert all(wanted in (None, got) for wanted, got in zip(fixed, best[2:], strict=True))


@given(mixture=mixtures(), k=st.integers(2, 16), value=st.sampled_from(["groups", "signal"]))
def test_swapping_right_and_wrong_swaps_the_boundaries(mixture, k, value):
    moments, objective = moments_of(mixture, k), Objective(value, max_false_abandon=0.3)
    best = best_boundaries(moments, objective, 1, 1, (1.0, 2.0))
    swapped = best_boundaries(RateMoments(*moments[::-1]), objective, 1, 1, (2.0, 1.0))
    mirrored = Boundaries(swapped.all_pass, swapped.all_fail, 1, 1)
    assert per_value(best, moments, objective, (1.0, 2.0)) == pytest.approx(
        per_value(mirrored, moments, objective, (1.0, 2.0)), rel=1e-9
    )


@given(mixture=mixtures(), k=st.sampled_from([4, 8, 16]), slack=st.sampled_from([0.01, 0.05]))
def test_indifference_gives_up_little_and_loses_no_more_groups(mixture, k, slack):
    moments = moments_of(mixture, k)
    best = best_boundaries(moments, Objective(), 1, 1)
    calm = best_boundaries(moments, Objective(indifference=slack), 1, 1)
    assert per_value(calm, moments) <= per_value(best, moments) / (1 - slack) * (1 + 1e-9)
    assert appraise(calm, moments).lost_share <= appraise(best, moments).lost_share + 1e-9


def test_dear_failures_are_given_up_earlier_than_cheap_ones():
    moments = beta_moments(16, 0.5, 0.9)
    even, dear = (best_boundaries(moments, Objective(), 1, 1, (1.0, wrong)) for wrong in (1.0, 4.0))
    assert dear.all_fail < even.all_fail


@pytest.mark.parametrize("on_commit", ["fill", "stop"])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_where_nothing_can_be_gained_nothing_is_abandoned(rate, on_commit):
    moments = moments_of(RateMixture.of([{"rate": rate}]), 8)
    best = best_boundaries(moments, Objective(on_commit=on_commit, max_false_abandon=0.25))
    assert best == (8, 8, 4, 8)
    assert appraise(best, moments).lost_share == 0


def test_large_groups_are_no_trouble():
    moments = beta_moments(1024, 0.1, 0.3)
    best = best_boundaries(moments, Objective(max_false_abandon=0.25))
    assert per_value(best, moments) < 0.7 * 1024 / moments.effective
    assert appraise(best, moments).lost_share <= 0.25


def test_boundaries_take_effect_at_the_next_look():
    assert Boundaries(2, 6, 4, 3).at_looks(8) == (4, 7, 4, 3)
    assert Boundaries(4, 8, 4, 3).at_looks(8) == (4, 8, 4, 3)
    assert Boundaries(1, 5, 1, 9).at_looks(8) == (1, 8, 1, 9)


def test_a_loss_needs_evidence():
    """Rates 0 and 0.1, half each, k = 16, as expected of so many whole groups: abandoning gains 7%.

    From 10 prompts nothing is abandoned, from very many as if all were known. Where every rate is 0.1, so that nothing
    is to be gained, evidence wins over a prior that says there is.
    """
    moments = mixture_moments(16, np.array([0.0, 0.1]), np.array([0.5, 0.5]))
    known = best_boundaries(moments, Objective())
    assert min(known[:2]) < 16
    assert best_boundaries(moments, Objective(), evidence=expected_evidence([0, 0.1], 10))[:2] == (16, 16)
    assert best_boundaries(moments, Objective(), evidence=expected_evidence([0, 0.1], 1e6)) == known
    assert best_boundaries(moments, Objective(), evidence=expected_evidence([0.1], 1e6))[:2] == (16, 16)


def expected_evidence(rates, prompts, k=16):
    table, s = OutcomeTable(k, 1.0), np.arange(k + 1)
    table.record(np.full(k + 1, k), s, s)
    chances = binom.pmf(s[:, None], k, np.array(rates)).mean(axis=1)
    table.cells = table.cells._replace(count=prompts * chances)
    return gather(table, chances)


def test_the_cap_is_on_what_is_observed_to_be_lost():
    """Zeros and 0.2, k = 16: 24% of the groups are lost after 6 failures, 31% after 5. A prior of zeros and 0.3 would
    say that 5 lose 16%, and 4 lose 24%."""
    truth, prior = (mixture_moments(16, np.array([0.0, rate]), np.array([0.5, 0.5])) for rate in (0.2, 0.3))
    capped = Objective(max_false_abandon=0.25)
    assert best_boundaries(prior, capped)[:2] == (4, 16)
    found = best_boundaries(prior, capped, evidence=expected_evidence([0, 0.2], 1e6))
    assert found[:2] == (6, 16) and appraise(found, truth).lost_share < 0.25
