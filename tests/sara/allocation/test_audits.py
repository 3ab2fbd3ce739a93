from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sara.allocation import Fate, Ledger, Limits, SequentialAllocator
from sara.allocation.audits import AuditTally, confidence_sequence


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 17), (17, 17), (40, 1000)])
def test_the_interval_holds_the_rates_that_are_likely_enough(successes, trials):
    """At its ends the observed is exactly 0.05 times as likely as under a rate drawn uniformly, inside more."""
    low, high = confidence_sequence(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    assert (low == 0) == (successes == 0) and (high == 1) == (successes == trials)
    ends = [end for end in (low, high) if 0 < end < 1]
    assert binom.pmf(successes, trials, ends) == pytest.approx(0.05 / (trials + 1), rel=1e-6)
    exact = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="exact")
    assert low <= exact.low and high >= exact.high  # wider than for a single look


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_run_that_keeps_its_promise_is_hardly_ever_accused(rate):
    """The rate is exactly tau_low, looked at after each of 100 steps of 0 to 6 audits: at most 5% of 2000 runs.

    An interval for a single look accuses far more of the same runs.
    """
    rng = np.random.default_rng(0)
    audited = np.cumsum(rng.integers(0, 7, (2000, 100)), axis=1)
    effective = np.cumsum(rng.binomial(np.diff(audited, prepend=0), rate), axis=1)
    low = np.zeros((audited.max() + 1, audited.max() + 1))
    for trials, successes in set(zip(audited.ravel().tolist(), effective.ravel().tolist(), strict=True)):
        if successes > rate * trials:  # else the lower end is below the rate anyway
            low[trials, successes] = binom.pmf(successes, trials, rate) <= 0.05 / (trials + 1)
    is_accused = low[audited, effective].any(axis=1)
    assert is_accused.mean() <= 0.05
    single_look = binom.sf(effective - 1, audited, rate) < 0.025
    assert single_look.any(axis=1).mean() > 0.1


def test_the_lower_end_passes_a_rate_just_when_the_rate_becomes_unlikely():
    for trials in (1, 7, 60):
        for successes in range(trials + 1):
            for rate in (0.1, 0.5):
                is_unlikely = binom.pmf(successes, trials, rate) < 0.05 / (trials + 1)
                is_above = confidence_sequence(successes, trials)[0] > rate
                assert is_above == (is_unlikely and successes > rate * trials)


def ledger_of(n, s, fate, lots=None, is_audited=None) -> Ledger:
    ledger = Ledger()
    ledger.open(np.arange(len(n)), lots)
    ledger.n[:] = ledger.issued[:] = n
    ledger.s[:], ledger.fate[:] = s, fate
    if is_audited is not None:
        ledger.is_audited[:] = is_audited
    return ledger


def test_the_tally_by_hand():
    """Two complete audits, one mixed; 4 abandoned before k and not audited; 2 effective groups without an audit.

    An audit cut short, a group saturated at k and one that could not be scored say nothing. The rate is 1/2; of
    4 + 2 = 6 abandoned prompts 3 are thought to have been effective, beside 2 that were found: 3/5 were lost.
    """
    fates = [Fate.AUDITED, Fate.COMMITTED, *[Fate.ABANDONED_FAIL] * 3, Fate.ABANDONED_PASS, Fate.COMMITTED]
    fates += [Fate.SURPLUS, Fate.UNFINISHED, Fate.ABANDONED_FAIL, Fate.UNSCORABLE]
    n = [8, 8, 4, 4, 4, 4, 8, 6, 6, 8, 7]
    s = [0, 1, 0, 0, 0, 4, 3, 2, 0, 0, 0]
    is_audited = [1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    tally = AuditTally()
    assert tally.metrics(0.5, None) == {}
    tally.record(ledger_of(n, s, fates, is_audited=is_audited), 8)
    assert tally.state_dict() == {"audited": 2, "effective": 1, "abandoned": 6, "committed": 2}
    metrics = tally.metrics(0.5, None)
    assert metrics["audit/false_abandon_rate"] == 0.5 and metrics["audit/lost_share"] == 0.6
    low, high = confidence_sequence(1, 2)
    assert (metrics["audit/false_abandon_rate_low"], metrics["audit/false_abandon_rate_high"]) == (low, high)
    assert metrics["audit/lost_share_low"] == pytest.approx(6 * low / (6 * low + 2))
    assert metrics["audit/exceeds"] == 0 and metrics["audit/cumulative"] == 2


@pytest.mark.parametrize(("limit", "exceeds"), [((0.2, None), 1), ((0.4, None), 0), ((None, 0.3), 1), ((None, 0.9), 0)])
def test_a_warning_needs_the_lower_end_above_what_was_promised(limit, exceeds):
    tally = AuditTally()
    tally.audited, tally.effective, tally.abandoned, tally.committed = 60, 24, 100, 50  # low: 0.221, and 0.306 lost
    assert tally.metrics(*limit)["audit/exceeds"] == exceeds


def test_a_tally_goes_on_where_it_was():
    tally, other = AuditTally(), AuditTally()
    tally.record(ledger_of([8, 4], [1, 0], [Fate.COMMITTED, Fate.ABANDONED_FAIL], is_audited=[1, 0]), 8)
    other.load_state_dict(tally.state_dict())
    assert other.metrics(0.1, 0.1) == tally.metrics(0.1, 0.1)


# ------------------------------------------------------------------------------------------------- in the allocator


def test_who_is_audited_is_decided_by_lot():
    """tau_low = 0.5, k = 8: rows of four equal outcomes are abandoned, but those whose lot is below the rate go on."""
    allocator = SequentialAllocator(8, audit_rate=0.3)
    ledger = ledger_of([4, 4, 4, 4, 8], [0, 0, 4, 1, 0], [Fate.OPEN] * 5, lots=np.array([0.29, 0.3, 0.1, 0.1, 0.1]))
    allocator.judge(ledger)
    expected = [Fate.AUDITED, Fate.ABANDONED_FAIL, Fate.AUDITED, Fate.COMMITTED, Fate.ABANDONED_FAIL]
    assert ledger.fate.tolist() == expected
    assert ledger.is_audited.tolist() == [True, False, True, False, False]
    # What is missing of them is drawn at once, beside the fill; once the target is reached nothing else is.
    assert allocator.allocate(ledger, Limits(target=9)).tolist() == [4, 0, 4, 4, 0]
    assert allocator.allocate(ledger, Limits(target=1)).tolist() == [4, 0, 4, 4, 0]
    # And a budget keeps it in reserve: 24 spent, 12 outstanding, 16 buy two groups.
    ledger.spent = 24
    assert allocator.num_to_open(ledger, Limits(budget=24 + 12 + 16)) == 2


@pytest.mark.parametrize("train_audited", [True, False])
def test_a_complete_audit_is_trained_if_it_is_mixed_and_that_is_wanted(train_audited):
    allocator = SequentialAllocator(8, audit_rate=1.0, train_audited=train_audited)
    ledger = ledger_of([8, 8, 6], [1, 0, 1], [Fate.AUDITED] * 3, is_audited=[1, 1, 1])
    allocator.judge(ledger)
    assert ledger.fate.tolist() == [Fate.COMMITTED if train_audited else Fate.AUDITED, Fate.AUDITED, Fate.AUDITED]


def test_a_hundredth_is_audited_by_default():
    lots = np.array([0.0099, 0.0101])
    ledger = ledger_of([4, 4], [0, 4], [Fate.OPEN] * 2, lots=lots)
    SequentialAllocator(8).judge(ledger)
    assert ledger.fate.tolist() == [Fate.AUDITED, Fate.ABANDONED_PASS]


def test_nothing_is_audited_at_a_rate_of_0_or_without_lots():
    for rate, lots in ((0.0, np.zeros(2)), (1.0, None)):
        allocator = SequentialAllocator(8, audit_rate=rate)
        ledger = ledger_of([4, 4], [0, 4], [Fate.OPEN] * 2, lots=lots)
        allocator.judge(ledger)
        assert ledger.fate.tolist() == [Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS]


@pytest.mark.parametrize(
    ("tau_low", "message"),
    [
        (0.2, r"allocator\.tau_low = 0\.2, but by the audits at least \d+\.\d% of the abandoned groups"),
        ("auto", r"allocator\.max_false_abandon = 0\.25, but by the audits at least \d+\.\d% of the effective groups"),
    ],
)
def test_a_broken_promise_is_told_once(tau_low, message):
    allocator = SequentialAllocator(8, tau_low=tau_low, probe=4, increment=3, audit_rate=1.0)
    kept = ledger_of([8] * 20, [0] * 20, [Fate.AUDITED] * 20, is_audited=[1] * 20)
    broken = ledger_of([8] * 40, [1] * 40, [Fate.COMMITTED] * 40, is_audited=[1] * 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert allocator.end_step(kept)["audit/exceeds"] == 0
    with pytest.warns(UserWarning, match=message) as told:
        assert allocator.end_step(broken)["audit/exceeds"] == 1
    assert len(told) == 1 and "\n" not in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert allocator.end_step(broken)["audit/exceeds"] == 1
