from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.allocation.outcome_table import OutcomeTable


def counts_of(table: OutcomeTable) -> dict[tuple[int, int], tuple[float, float]]:
    n, s, count, tokens = (column.tolist() for column in table.cells)
    return {(a, b): (c, d) for a, b, c, d in zip(n, s, count, tokens, strict=True)}


def test_what_is_recorded_fades_and_unseen_prompts_say_nothing():
    table = OutcomeTable(8, memory=0.5)
    table.record(np.array([8, 4, 4, 0]), np.array([3, 0, 0, 0]), np.array([80, 10, 14, 0]))
    assert counts_of(table) == {(4, 0): (2, 24), (8, 3): (1, 80)}
    table.record(np.array([4, 2]), np.array([0, 2]), np.array([6, 5]))
    assert counts_of(table) == {(2, 2): (1, 5), (4, 0): (0.5 * 2 + 1, 0.5 * 24 + 6), (8, 3): (0.5, 40)}


def test_what_is_almost_forgotten_is_dropped():
    table, nothing = OutcomeTable(8, memory=0.9), np.array([], dtype=np.int64)
    table.record(np.array([4]), np.array([0]), np.array([10]))
    for _ in range(65):  # 0.9^65 = 0.00106
        table.record(nothing, nothing, nothing)
    assert counts_of(table)[4, 0][0] == pytest.approx(0.9**65)
    table.record(nothing, nothing, nothing)
    assert counts_of(table) == {}


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 40))
def test_the_order_of_prompts_does_not_matter(seed, k):
    rng = np.random.default_rng(seed)
    n = rng.integers(0, k + 1, 50)
    rows = np.stack([n, rng.binomial(n, 0.3), rng.integers(0, 2000, 50)])
    shuffled = rows[:, rng.permutation(50)]
    one, other = OutcomeTable(k, 0.9), OutcomeTable(k, 0.9)
    for _ in range(3):
        one.record(*rows), other.record(*shuffled)
    np.testing.assert_array_equal(np.stack(one.cells), np.stack(other.cells))
    assert len(counts_of(one)) <= (k + 1) * (k + 2) // 2


@pytest.mark.parametrize(("right", "wrong"), [(300, 900), (700, 700), (900, 250)])
def test_mean_tokens_of_right_and_wrong_rollouts_are_told_apart(right, wrong):
    rng = np.random.default_rng(0)
    n = rng.choice([2, 4, 8], 3000)
    s = rng.binomial(n, rng.beta(0.3, 0.5, 3000))
    noise = np.rint(rng.normal(0, 100 * np.sqrt(n))).astype(np.int64)
    table = OutcomeTable(8, 1.0)
    table.record(n, s, s * right + (n - s) * wrong + noise)
    # About 6000 rollouts of each kind with a deviation of 100: a standard error near 1.5, and a little for mixing.
    assert table.mean_tokens() == pytest.approx((right, wrong), abs=8)


def test_lengths_of_a_kind_never_seen_are_taken_from_the_other():
    table = OutcomeTable(8, 1.0)
    assert table.mean_tokens() == (1.0, 1.0)
    table.record(np.full(100, 8), np.zeros(100, dtype=int), np.full(100, 4000))
    assert table.mean_tokens() == pytest.approx((500, 500))


def test_a_table_goes_on_where_it_was():
    table, other = OutcomeTable(8, 0.9), OutcomeTable(8, 0.9)
    table.record(np.array([8, 4]), np.array([3, 0]), np.array([80, 10]))
    state = table.state_dict()
    other.load_state_dict(state)
    for each in (table, other):
        each.record(np.array([4]), np.array([4]), np.array([9]))
    np.testing.assert_equal(other.state_dict(), table.state_dict())
    assert state["count"].tolist() == [1, 1]  # a snapshot
