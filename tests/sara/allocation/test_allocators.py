"""The contract, for every registered allocator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation import ALLOCATORS, Fate, Ledger, Limits, Outcomes

pytestmark = pytest.mark.filterwarnings("ignore:allocator.tau_low")  # probe = k and the like, on purpose
each_allocator = pytest.mark.parametrize("name", ALLOCATORS)
limits_of_a_step = st.builds(
    Limits,
    target=st.integers(1, 12),
    budget=st.none() | st.integers(1, 300),
    max_rounds=st.none() | st.integers(1, 6),
) | st.builds(Limits, budget=st.integers(1, 300), max_rounds=st.none() | st.integers(1, 6))


def play_round(allocator, ledger, limits, rates, rng) -> np.ndarray:
    """Open, allocate, draw and judge once; the counts drawn. `rates` is also the pool."""
    room = min(allocator.num_to_open(ledger, limits), rates.size - len(ledger))
    ledger.open(np.arange(len(ledger), len(ledger) + room))
    counts = allocator.allocate(ledger, limits)
    rows, _ = ledger.issue(counts)
    ledger.rounds, ledger.spent = ledger.rounds + 1, ledger.spent + rows.size
    rewards = (rng.random(rows.size) < rates[ledger.prompts[rows]]).astype(np.int8)
    ledger.record(rows, Outcomes(rewards, np.ones(rows.size, dtype=np.int64)))
    allocator.judge(ledger)
    return counts


@each_allocator
@settings(max_examples=50, deadline=None)
@given(limits=limits_of_a_step, k=st.sampled_from([2, 4, 8]), seed=st.integers(0, 2**32 - 1))
def test_counts_are_what_a_row_may_still_draw(name, limits, k, seed):
    rng = np.random.default_rng(seed)
    options = {"probe": int(rng.integers(1, k + 1)), "increment": 1} if name == "sara" else {}
    allocator, ledger = ALLOCATORS[name](k=k, **options), Ledger()
    rates = rng.beta(0.3, 0.3, 60)
    for _ in range(limits.max_rounds or 30):
        before = ledger.fate.copy()
        issued = ledger.issued.copy()
        counts = play_round(allocator, ledger, limits, rates, rng)
        assert counts.shape == (len(ledger),) and counts.dtype.kind == "i"
        assert (counts >= 0).all() and (ledger.issued <= k).all()
        is_final = ~np.isin(before, [Fate.OPEN, Fate.AUDITED, Fate.COMMITTED])
        assert not counts[: before.size][is_final].any()
        assert (ledger.issued[: issued.size] >= issued).all()
        assert limits.budget is None or ledger.spent <= limits.budget
        if not counts.any():
            break


@each_allocator
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_judge_settles_open_rows_and_complete_audits_only_and_commits_every_mixed_one(name, seed):
    rng = np.random.default_rng(seed)
    allocator, ledger = ALLOCATORS[name](k=4), Ledger()
    ledger.open(np.arange(50))
    ledger.issued[:] = ledger.n[:] = rng.integers(0, 5, 50)
    ledger.s[:] = rng.binomial(ledger.n, rng.choice([0.0, 0.5, 1.0], 50))
    ledger.fate[:] = before = rng.integers(0, len(Fate), 50).astype(np.int8)
    allocator.judge(ledger)
    was_open = before == Fate.OPEN
    is_whole_audit = (before == Fate.AUDITED) & (ledger.n == 4) & ledger.is_mixed
    is_left_alone = ~was_open & ~(is_whole_audit & (name == "sara"))
    assert (ledger.fate[is_left_alone] == before[is_left_alone]).all()
    assert (ledger.fate[was_open & ledger.is_mixed] == Fate.COMMITTED).all()
    assert (ledger.fate[was_open & (ledger.n == 0)] == Fate.OPEN).all()
    assert (ledger.fate[was_open & (ledger.n == 4)] != Fate.OPEN).all()
    assert (ledger.s[was_open & (ledger.fate == Fate.ABANDONED_FAIL)] == 0).all()
    assert (ledger.s[was_open & (ledger.fate == Fate.ABANDONED_PASS)] > 0).all()


@each_allocator
def test_state_goes_on_where_it_was(name):
    rng, rates, limits = np.random.default_rng(0), np.full(400, 0.1), Limits(target=8)
    allocator = ALLOCATORS[name]()
    ledger = Ledger()
    for _ in range(3):
        play_round(allocator, ledger, limits, rates, rng)
    allocator.end_step(ledger)
    other = ALLOCATORS[name]()
    other.load_state_dict(allocator.state_dict())
    np.testing.assert_equal(other.state_dict(), allocator.state_dict())
    assert other.num_to_open(Ledger(), limits) == allocator.num_to_open(Ledger(), limits)


@each_allocator
def test_a_budget_below_one_group_opens_nothing(name):
    assert ALLOCATORS[name](k=8).num_to_open(Ledger(), Limits(target=4, budget=7)) == 0
    assert ALLOCATORS[name](k=8).num_to_open(Ledger(), Limits(budget=17)) == 2


@each_allocator
@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True])
def test_group_size_must_be_an_integer_of_at_least_two(name, k):
    with pytest.raises(ValueError, match=r"allocator\.k = .*; expected an integer of at least 2"):
        ALLOCATORS[name](k=k)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither target nor budget"),
        ({"max_rounds": 3}, "neither target nor budget"),
        ({"target": 0}, r"limits\.target = 0; expected an integer of at least 1"),
        ({"budget": -8}, r"limits\.budget = -8"),
        ({"target": 4, "max_rounds": 0}, r"limits\.max_rounds = 0"),
        ({"target": 4.0}, r"limits\.target = 4\.0"),
    ],
)
def test_limits_say_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        Limits(**arguments)


@pytest.mark.parametrize(
    ("limits", "opens"),
    [
        (Limits(target=16), 16),
        (Limits(budget=100), 12),
        (Limits(target=16, budget=100), 12),
        (Limits(target=4, budget=100), 4),
        (Limits(budget=3), 1),
    ],
)
def test_a_step_opens_at_least_what_it_could_fill(limits, opens):
    assert limits.opens_at_least(k=8) == opens
