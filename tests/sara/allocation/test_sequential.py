from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sara.allocation import Fate, Ledger, Limits, SequentialAllocator, prob_effective

pytestmark = pytest.mark.filterwarnings("ignore:allocator.tau_low")  # thresholds too low to save anything, on purpose
OPEN, COMMITTED, FAIL, PASS = Fate.OPEN, Fate.COMMITTED, Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS


def ledger_of(n, s, fate=None, issued=None) -> Ledger:
    ledger = Ledger()
    ledger.open(np.arange(len(n)))
    ledger.n[:], ledger.s[:] = n, s
    ledger.issued[:] = n if issued is None else issued
    ledger.fate[:] = OPEN if fate is None else fate
    ledger.spent, ledger.rounds = int(ledger.issued.sum()), int(len(n) > 0)
    return ledger


def judged(allocator: SequentialAllocator, n, s) -> list[int]:
    ledger = ledger_of(n, s)
    allocator.judge(ledger)
    return ledger.fate.tolist()


def test_sara_abandons_after_four_equal_outcomes_at_k_8_and_tau_one_half():
    # p_eff = (8 - n) / 9: 5/9 after three equal outcomes, 4/9 after four.
    allocator = SequentialAllocator(k=8, tau_low=0.5)
    assert judged(allocator, [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]) == [OPEN, OPEN, OPEN, FAIL, FAIL]
    assert judged(allocator, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) == [OPEN, OPEN, OPEN, PASS, PASS]
    assert judged(allocator, [2, 4, 8, 8], [1, 3, 1, 7]) == [COMMITTED] * 4


def test_sara_abandons_only_at_exactly_below_the_threshold():
    # k = 7: p_eff after 3 equal outcomes is (7 - 3) / 8 = 0.5, which is not below 0.5.
    assert judged(SequentialAllocator(k=7, tau_low=0.5), [3, 4], [0, 0]) == [OPEN, FAIL]


@pytest.mark.parametrize("tau_low", [0.0, 1 / 9])
def test_at_a_low_threshold_sara_abandons_nothing_before_k(tau_low):
    # The smallest p_eff before n = k is (8 - 7) / 9 = 1/9, so tau_low <= 1/9 can save nothing.
    allocator = SequentialAllocator(k=8, tau_low=tau_low)
    assert judged(allocator, [1, 7, 7, 8, 8], [0, 0, 7, 0, 8]) == [OPEN, OPEN, OPEN, FAIL, PASS]


@given(
    k=st.integers(2, 64),
    tau_low=st.floats(0, 0.999),
    alpha0=st.floats(0.01, 50),
    beta0=st.floats(0.01, 50),
)
def test_every_abandoned_prefix_has_at_most_tau_low_of_becoming_effective(k, tau_low, alpha0, beta0):
    n, s = np.nonzero(np.tri(k + 1, dtype=int))  # every 0 <= s <= n <= k
    fate = np.array(judged(SequentialAllocator(k, tau_low, 1, 1, alpha0, beta0), n, s))
    p_eff = prob_effective(n, s, k, alpha0, beta0)
    is_abandoned = np.isin(fate, [FAIL, PASS])
    assert (p_eff[is_abandoned & (n < k)] < tau_low).all()
    assert (p_eff[(fate == OPEN) & (n > 0)] >= tau_low).all()
    assert (fate[n == 0] == OPEN).all()
    assert ((s > 0) & (s < n) == (fate == COMMITTED)).all()


def test_a_hopeless_prior_still_gives_every_prompt_one_round():
    allocator = SequentialAllocator(k=8, probe=2, alpha0=0.001, beta0=10.0)
    assert prob_effective(0, 0, 8, 0.001, 10.0) < 0.001
    ledger, limits = ledger_of([0, 0], [0, 0]), Limits(target=2)
    allocator.judge(ledger)
    assert ledger.fate.tolist() == [OPEN, OPEN]
    assert allocator.allocate(ledger, limits).tolist() == [2, 2]


def test_a_round_probes_fresh_prompts_continues_open_ones_and_fills_committed_ones():
    allocator = SequentialAllocator(k=8, probe=3, increment=2, tau_low=0.1)
    ledger = ledger_of([0, 3, 7, 3, 3], [0, 0, 0, 1, 3], [OPEN, OPEN, OPEN, COMMITTED, PASS])
    assert allocator.allocate(ledger, Limits(target=9)).tolist() == [3, 2, 1, 5, 0]


def test_stop_mode_draws_nothing_for_a_committed_group():
    allocator = SequentialAllocator(k=8, probe=3, increment=2, on_commit="stop")
    ledger = ledger_of([0, 3], [0, 1], [OPEN, COMMITTED])
    assert allocator.allocate(ledger, Limits(target=9)).tolist() == [3, 0]
    assert allocator.outstanding(ledger).tolist() == [8, 0]


def test_once_the_target_is_reached_only_committed_groups_are_drawn():
    ledger = ledger_of([3, 3], [0, 1], [OPEN, COMMITTED])
    assert SequentialAllocator(k=8, tau_low=0.1).allocate(ledger, Limits(target=1)).tolist() == [0, 5]


def test_the_last_round_draws_whole_groups_in_fill_mode():
    ledger = ledger_of([0, 3, 3], [0, 0, 1], [OPEN, OPEN, COMMITTED])
    limits = Limits(target=9, max_rounds=2)
    assert SequentialAllocator(k=8, tau_low=0.1).allocate(ledger, limits).tolist() == [8, 5, 5]
    stop = SequentialAllocator(k=8, tau_low=0.1, probe=3, increment=1, on_commit="stop")
    assert stop.allocate(ledger, limits).tolist() == [3, 1, 0]


def test_a_budget_keeps_in_reserve_what_open_and_committed_prompts_may_need():
    # Spent 3 + 3 + 4 = 10; in reserve 5 for the open and 5 for the committed one; 40 - 20 = 20 buy two groups.
    ledger = ledger_of([3, 3, 4], [0, 1, 0], [OPEN, COMMITTED, FAIL])
    assert SequentialAllocator(k=8).num_to_open(ledger, Limits(budget=40)) == 2
    assert SequentialAllocator(k=8, on_commit="stop").num_to_open(ledger, Limits(budget=40)) == 3


def test_a_reserve_eaten_by_redraws_goes_to_committed_groups_first():
    ledger = ledger_of([3, 3, 3], [0, 1, 0], [OPEN, COMMITTED, OPEN])
    ledger.spent = 33  # 7 left: 5 for the committed one, 2 for the first open one
    allocator = SequentialAllocator(k=8, tau_low=0.1)
    assert allocator.allocate(ledger, Limits(budget=40)).tolist() == [2, 5, 0]


def smallest_opening(shortfall, p, rate, margin) -> int:
    """Search the definition: the fewest m with mean - margin * deviation >= shortfall."""
    for m in range(10_000):
        variance = (p * (1 - p)).sum() + m * rate * (1 - rate)
        if p.sum() + m * rate - margin * np.sqrt(variance) >= shortfall - 1e-9:
            return m
    raise AssertionError("no opening is enough")


@settings(deadline=None)
@example(target=19, num_open=3, num_failed=1, margin=0.0)  # (18 - 4/3) / (2/3) is 25, and not a rounding above it
@given(
    target=st.integers(1, 40),
    num_open=st.integers(0, 30),
    num_failed=st.integers(0, 60),
    margin=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
)
def test_opening_covers_the_shortfall_by_the_margin(target, num_open, num_failed, margin):
    n = [4] * num_open + [8] * num_failed + [8]
    s = [0] * (num_open + num_failed) + [3]
    ledger = ledger_of(n, s, [OPEN] * num_open + [FAIL] * num_failed + [COMMITTED])
    allocator = SequentialAllocator(k=8, tau_low=0.1, margin=margin)
    rate = max((1 + 1) / (1 + num_failed + 1), 0.05)
    assert allocator.commit_rate(ledger) == pytest.approx((1 + 1) / (1 + num_failed + 1))
    expected = 0
    if target > 1:
        expected = max(smallest_opening(target - 1, np.full(num_open, 4 / 9), rate, margin), num_open == 0)
    assert allocator.num_to_open(ledger, Limits(target=target)) == expected


@pytest.mark.parametrize("margin", [-3.0, -1.0, 0.0])
def test_something_is_opened_while_nothing_is_open_and_the_target_is_not_reached(margin):
    allocator = SequentialAllocator(margin=margin)
    assert allocator.num_to_open(ledger_of([8], [3], [COMMITTED]), Limits(target=2)) >= 1


def test_one_round_never_opens_more_than_twenty_times_the_shortfall():
    allocator = SequentialAllocator(margin=0.0)
    ledger = ledger_of([4] * 100_000, [0] * 100_000, [FAIL] * 100_000)
    assert allocator.commit_rate(ledger) < 1e-4
    assert allocator.num_to_open(ledger, Limits(target=16)) == 320


@pytest.mark.parametrize("k", [8, 32])
def test_where_every_group_commits_no_more_is_opened_than_is_wanted(k):
    allocator, ledger = SequentialAllocator(k), Ledger()
    assert allocator.num_to_open(ledger, Limits(target=16)) == 16
    for _ in range(3):
        allocator.end_step(ledger_of([k] * 16, [1] * 16, [COMMITTED] * 16))
        assert allocator.num_to_open(ledger, Limits(target=16)) == 16


def test_the_commit_rate_is_carried_over_steps_and_fades():
    allocator = SequentialAllocator(memory=0.5)
    assert allocator.commit_rate(Ledger()) == 1
    ledger = ledger_of([8, 8, 4, 4, 2], [1, 2, 0, 4, 0], [COMMITTED, Fate.SURPLUS, FAIL, PASS, Fate.UNFINISHED])
    assert allocator.commit_rate(ledger) == (1 + 2) / (1 + 4)
    allocator.end_step(ledger)
    assert allocator.commit_rate(Ledger()) == (1 + 0.5 * 2) / (1 + 0.5 * 4)
    allocator.end_step(ledger)  # 0.5 * (1 + 2) of 0.5 * (2 + 4)
    assert allocator.commit_rate(Ledger()) == (1 + 1.5) / (1 + 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau_low": 1.4}, r"allocator\.tau_low = 1\.4; expected a number in \[0, 1\)"),
        ({"tau_low": -0.1}, r"allocator\.tau_low = -0\.1"),
        ({"tau_low": float("nan")}, r"allocator\.tau_low = nan"),
        ({"probe": 0}, r"allocator\.probe = 0; expected an integer of at least 1"),
        ({"probe": 9}, r"allocator\.probe = 9; expected at most k = 8"),
        ({"increment": 0}, r"allocator\.increment = 0"),
        ({"on_commit": "full"}, r"allocator\.on_commit = 'full'; expected 'fill' or 'stop'"),
        ({"alpha0": 0.0}, r"allocator\.alpha0 = 0\.0; expected a finite number above 0"),
        ({"beta0": float("inf")}, r"allocator\.beta0 = inf"),
        ({"margin": float("nan")}, r"allocator\.margin = nan"),
        ({"tau_low": "automatic"}, r"allocator\.tau_low = 'automatic'; expected a number in \[0, 1\) or 'auto'"),
        ({"tau_low": "auto", "learn_prior": False}, r"learn_prior = False; expected True with tau_low = 'auto'"),
        ({"probe": "fast"}, r"allocator\.probe = 'fast'; expected an integer of at least 1"),
        ({"max_false_abandon": 1.5}, r"allocator\.max_false_abandon = 1\.5; expected a number in \[0, 1\]"),
        ({"audit_rate": -0.1}, r"allocator\.audit_rate = -0\.1; expected a number in \[0, 1\]"),
        ({"value": "pairs"}, r"allocator\.value = 'pairs'; expected 'groups' or 'signal'"),
        ({"cost": "seconds"}, r"allocator\.cost = 'seconds'; expected 'rollouts' or 'tokens'"),
        ({"rounds_per_prompt": 1}, r"allocator\.rounds_per_prompt = 1; expected an integer of at least 2"),
        ({"prior_memory": 2}, r"allocator\.prior_memory = 2"),
        ({"memory": 1.1}, r"allocator\.memory = 1\.1; expected a number in \[0, 1\]"),
    ],
)
def test_sara_says_what_is_wrong_with_its_options(options, message):
    with pytest.raises(ValueError, match=message):
        SequentialAllocator(k=8, **options)
