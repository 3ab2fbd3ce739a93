"""The stopping rule, by threshold and learned: what is in force, what it expects, and what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.allocation import Fate, Ledger, SequentialAllocator, prob_effective
from sara.allocation.boundaries import Objective, best_boundaries
from sara.allocation.moments import beta_moments

AUTO = {"tau_low": "auto", "probe": "auto", "increment": "auto"}
quiet = pytest.mark.filterwarnings("ignore:allocator.tau_low")


def ledger_of(rates, k, boundaries, rng, tokens=(1, 1)) -> Ledger:
    """A finished step: prompts abandoned at `boundaries` (all-fail, all-pass), the others run on to k."""
    right = (rng.random((rates.size, k)) < rates[:, None]).cumsum(axis=1)
    ledger = Ledger()
    ledger.open(np.arange(rates.size))
    ledger.n[:] = k
    for boundary, is_saturated in zip(boundaries, (lambda r, n: r == 0, lambda r, n: r == n), strict=True):
        ledger.n[is_saturated(right[:, boundary - 1], boundary)] = boundary
    ledger.s[:] = right[np.arange(rates.size), ledger.n - 1]
    ledger.tokens[:] = tokens[0] * ledger.s + tokens[1] * (ledger.n - ledger.s)
    ledger.fate[:] = np.where(ledger.is_mixed, Fate.COMMITTED, np.where(ledger.s == 0, 2, 3))
    return ledger


def teach(allocator, alpha, beta, steps=12, prompts=300, seed=0, tokens=(1, 1)) -> SequentialAllocator:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        boundaries = allocator.stopping.boundaries.at_looks(allocator.k)[:2]
        allocator.end_step(ledger_of(rng.beta(alpha, beta, prompts), allocator.k, boundaries, rng, tokens))
    return allocator


# -------------------------------------------------------------------------------------------------- by threshold


@quiet
@given(
    k=st.integers(2, 64),
    tau_low=st.floats(0, 0.999),
    alpha0=st.floats(0.01, 50),
    beta0=st.floats(0.01, 50),
)
def test_a_threshold_abandons_exactly_where_p_eff_is_below_it(k, tau_low, alpha0, beta0):
    stopping = SequentialAllocator(k, tau_low, 1, 1, alpha0, beta0).stopping
    n = np.arange(1, k + 1)
    for s in (np.zeros_like(n), n):
        expected = (prob_effective(n, s, k, alpha0, beta0) < tau_low) | (n == k)
        np.testing.assert_array_equal(stopping.is_hopeless(n, s), expected)


@quiet
@pytest.mark.parametrize(
    ("options", "pace"),
    [
        # k = 16, uniform prior: p_eff = (16 - n) / 17 falls below 1/2 at n = 8.
        ({"k": 16}, (8, 8)),
        ({"k": 16, "probe": 3}, (3, 5)),
        ({"k": 16, "increment": 2}, (8, 2)),
        # Beta(0.2, 1), k = 8: below 1/2 after 1 failure and after 4 successes.
        ({"k": 8, "alpha0": 0.2}, (1, 3)),
        ({"k": 8, "tau_low": 0.05}, (8, 1)),
    ],
)
def test_with_a_threshold_a_pace_of_auto_looks_where_it_first_abandons(options, pace):
    allocator = SequentialAllocator(**{"probe": "auto", "increment": "auto"} | options)
    assert (allocator.probe, allocator.increment) == pace


def test_a_threshold_that_can_save_nothing_says_from_which_value_it_saves():
    # p_eff after 4 equal outcomes, the only look before k = 8, is 4/9; looking after each rollout, 1/9 after 7.
    with pytest.warns(UserWarning, match=r"tau_low = 0\.4 abandons nothing before k = 8; .* above 0\.4444 with this"):
        SequentialAllocator(8, 0.4)
    with pytest.warns(UserWarning, match=r"tau_low = 0\.1 abandons nothing before k = 8; .* above 0\.1111 with this"):
        SequentialAllocator(8, 0.1, probe=1, increment=1)
    with pytest.warns(UserWarning, match=r"tau_low = 0\.5 abandons nothing before k = 8; expected probe below k = 8"):
        SequentialAllocator(8, 0.5, probe=8)


def test_a_threshold_that_leaves_nothing_to_train_on_says_so():
    with pytest.warns(UserWarning, match=r"tau_low = 0\.5 abandons every prompt after its first rollout"):
        SequentialAllocator(2, 0.5, probe=1, increment=1)


@pytest.mark.parametrize(
    "options",
    [{}, {"tau_low": 0.45}, {"tau_low": 0.0}, {"k": 16}, {"tau_low": 0.12, "probe": 1, "increment": 1}, AUTO],
)
def test_a_threshold_that_saves_something_or_is_zero_on_purpose_warns_of_nothing(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SequentialAllocator(**options)


# -------------------------------------------------------------------------------------------------------- learned


@pytest.mark.parametrize("k", [2, 8, 32])
def test_before_anything_was_seen_auto_is_dynamic_sampling(k):
    assert SequentialAllocator(k, **AUTO).stopping.boundaries == (k, k, k // 2, k)


def test_a_start_that_is_known_to_be_saturated_abandons_at_once():
    allocator = SequentialAllocator(8, alpha0=0.1, beta0=0.3, max_false_abandon=1, **AUTO)
    expected = best_boundaries(beta_moments(8, 0.1, 0.3), Objective(indifference=0.003))
    assert allocator.stopping.boundaries == expected


def test_auto_learns_the_boundaries_of_the_true_prior():
    """Beta(0.1, 0.3): (3, 8), which loses 24% of the groups, with the cap of 25%; (2, 6) without one. Next to them are
    pairs that cost almost as much; which of them is in force wavers with what was seen."""
    capped = teach(SequentialAllocator(8, **AUTO), 0.1, 0.3).stopping.boundaries
    assert capped.all_fail in (3, 4) and capped.all_pass in (7, 8)
    free = teach(SequentialAllocator(8, max_false_abandon=1.0, **AUTO), 0.1, 0.3).stopping.boundaries
    assert free.all_fail == 2 and free.all_pass in (5, 6, 7)
    assert teach(SequentialAllocator(8, **AUTO), 1.0, 1.0).stopping.boundaries[:2] == (8, 8)


def test_auto_turns_over_when_the_policy_does():
    """From mostly failing to mostly passing prompts: which side is abandoned early turns with it."""
    allocator = teach(SequentialAllocator(8, prior_memory=0.8, **AUTO), 0.1, 1.0)
    before = allocator.stopping.boundaries
    after = teach(allocator, 1.0, 0.1, steps=25).stopping.boundaries
    assert before.all_fail < before.all_pass and after.all_pass < after.all_fail


def test_the_cap_on_lost_groups_holds_back():
    caps = (0.0, 0.1, 0.3, 1.0)
    learned = [teach(SequentialAllocator(8, max_false_abandon=cap, **AUTO), 0.1, 0.3) for cap in caps]
    lost = [allocator.stopping.metrics()["boundary/lost_share"] for allocator in learned]
    assert lost[0] == 0 and lost == sorted(lost) and lost[-1] > lost[1]
    assert all(share <= cap for share, cap in zip(lost, caps, strict=True))


def test_in_tokens_long_failures_are_given_up_earlier():
    options = {"max_false_abandon": 1.0} | AUTO
    in_rollouts = teach(SequentialAllocator(16, **options), 0.5, 0.9, tokens=(100, 400)).stopping.boundaries
    in_tokens = teach(
        SequentialAllocator(16, cost="tokens", **options), 0.5, 0.9, tokens=(100, 400)
    ).stopping.boundaries
    assert in_tokens.all_fail < in_rollouts.all_fail


def test_a_fixed_pace_is_kept():
    allocator = teach(SequentialAllocator(8, "auto", probe=2, increment=3), 0.1, 0.3)
    assert allocator.stopping.boundaries[2:] == (2, 3)
    assert set(allocator.stopping.boundaries[:2]) <= {2, 5, 8}


def test_a_learned_prior_tells_what_an_abandoned_prefix_would_have_become():
    """Beta(0.1, 0.3), k = 8: p_eff after four failures is 0.069, not 4/9."""
    allocator = teach(SequentialAllocator(8), 0.1, 0.3, steps=40)
    ledger = ledger_of(np.zeros(1), 8, (4, 4), np.random.default_rng(0))
    expected = prob_effective(4, 0, 8, 0.1, 0.3)
    assert allocator.chances(ledger)[0] == pytest.approx(expected, abs=0.03)
    assert expected == pytest.approx(0.0686, abs=5e-5)
    assumed = teach(SequentialAllocator(8, learn_prior=False), 0.1, 0.3, steps=2)
    assert assumed.chances(ledger)[0] == pytest.approx(4 / 9)
    assert allocator.stopping.boundaries == assumed.stopping.boundaries  # a threshold keeps to DESIGN's rule


@pytest.mark.parametrize("options", [AUTO, {}, {"tau_low": "auto", "cost": "tokens", "on_commit": "stop"}])
def test_learning_goes_on_where_it_was(options):
    straight = teach(SequentialAllocator(8, **options), 0.1, 0.3, steps=5, tokens=(30, 80))
    resumed = SequentialAllocator(8, **options)
    resumed.load_state_dict(straight.state_dict())
    for allocator in (straight, resumed):
        teach(allocator, 0.2, 0.2, steps=3, seed=1, tokens=(30, 80))
    np.testing.assert_equal(resumed.state_dict(), straight.state_dict())
    np.testing.assert_array_equal(resumed.stopping.chances, straight.stopping.chances)
    np.testing.assert_array_equal(resumed.stopping.commit_chances, straight.stopping.commit_chances)


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("k", [2, 8])
def test_a_pool_that_teaches_nothing_breaks_nothing(rate, k):
    allocator, rng = SequentialAllocator(k, **AUTO), np.random.default_rng(0)
    for _ in range(30):
        boundaries = allocator.stopping.boundaries.at_looks(k)[:2]
        allocator.end_step(ledger_of(np.full(200, rate), k, boundaries, rng))
    assert np.isfinite(allocator.stopping.chances).all()
    assert (allocator.stopping.chances[0 if rate == 0 else 1][1:] < 0.05).all()


@pytest.mark.parametrize("k", [2, 8, 64])
def test_a_probe_that_is_left_open_can_show_a_mixed_group(k):
    """Under Beta(0.01, 0.03) p_eff after a single outcome, of either kind, is below 0.5: both are abandoned at once."""
    stopping = SequentialAllocator(k, 0.5, probe="auto", increment="auto", alpha0=0.01, beta0=0.03).stopping
    assert stopping.boundaries.all_fail == stopping.boundaries.all_pass == 1
    assert stopping.boundaries.probe == 2
