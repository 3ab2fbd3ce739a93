from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.losses import AGGREGATIONS, token_weights

LONGEST = 10


def slow_loss(name: str, losses: list[list[float]], groups: list[int], equal_groups: bool) -> float:
    """The aggregated loss of the tokens of each rollout, from the definition of each mean."""
    kept = [(row, group) for row, group in zip(losses, groups, strict=True) if row]
    if not kept:
        return 0.0
    by_group = {g: [row for row, group in kept if group == g] for _, g in kept}

    def of(rows: list[list[float]]) -> float:
        tokens = [x for row in rows for x in row]
        return {
            "token": math.fsum(tokens) / len(tokens),
            "sequence": math.fsum(math.fsum(row) / len(row) for row in rows) / len(rows),
            "constant": math.fsum(tokens) / (LONGEST * len(rows)),
        }["token" if name == "group" else name]

    if name == "group" or equal_groups:
        return math.fsum(of(rows) for rows in by_group.values()) / len(by_group)
    return of([row for row, _ in kept])


rollouts = st.lists(
    st.tuples(st.lists(st.floats(-3, 3), max_size=6), st.integers(0, 3).map(lambda g: 7 * g)), min_size=1, max_size=12
)


@pytest.mark.parametrize("equal_groups", [False, True])
@pytest.mark.parametrize("name", AGGREGATIONS)
@given(rollouts)
def test_the_weighted_sum_is_the_mean_that_the_name_says(name, equal_groups, rows):
    losses, groups = [row for row, _ in rows], [group for _, group in rows]
    lengths = np.array([len(row) for row in losses])
    weights = token_weights(name, lengths, np.array(groups), LONGEST, equal_groups)
    found = sum(w * math.fsum(row) for w, row in zip(weights.tolist(), losses, strict=True))
    assert found == pytest.approx(slow_loss(name, losses, groups, equal_groups), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "equal_groups", "expected"),
    [
        # Group 0: two rollouts of 1 and 3 tokens; group 1: one of 4. T = 8, N = 3, G = 2, longest 10.
        ("token", False, [1 / 8, 1 / 8, 1 / 8]),
        ("sequence", False, [1 / 3, 1 / 9, 1 / 12]),
        ("group", False, [1 / 8, 1 / 8, 1 / 8]),  # here both groups happen to have 4 tokens
        ("constant", False, [1 / 30, 1 / 30, 1 / 30]),
        ("sequence", True, [1 / 4, 1 / 12, 1 / 8]),
        ("constant", True, [1 / 40, 1 / 40, 1 / 20]),
    ],
)
def test_worked_examples(name, equal_groups, expected):
    weights = token_weights(name, np.array([1, 3, 4]), np.array([0, 0, 1]), LONGEST, equal_groups)
    np.testing.assert_allclose(weights, expected, rtol=1e-14)


def test_uneven_lengths_under_the_token_mean():
    # Advantages +1 and -1 on 1 and 3 tokens, ratio 1: loss (-1 * 1 + 1 * 3) / 4 = 0.5; a mean of the means is 0.
    weights = token_weights("token", np.array([1, 3]), np.array([0, 0]))
    assert weights @ np.array([-1.0, 3.0]) == pytest.approx(0.5)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_rollout_without_trained_tokens_counts_in_no_denominator(name):
    with_it = token_weights(name, np.array([2, 0, 3, 0]), np.array([0, 0, 1, 2]), LONGEST)
    without = token_weights(name, np.array([2, 3]), np.array([0, 1]), LONGEST)
    np.testing.assert_allclose(with_it, [without[0], 0, without[1], 0], rtol=1e-14)
    assert not token_weights(name, np.array([0, 0]), np.array([0, 1]), LONGEST).any()
