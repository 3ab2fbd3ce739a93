from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.allocation import prob_effective
from sara.allocation.moments import RateMoments, beta_moments, mixture_moments

shapes = st.floats(0.02, 50)


@given(k=st.integers(1, 200), alpha=shapes, beta=shapes)
def test_moments_of_a_beta_give_p_eff(k, alpha, beta):
    n = np.arange(k + 1)
    after_fails, after_passes = beta_moments(k, alpha, beta).chance_tables()
    np.testing.assert_allclose(after_fails, prob_effective(n, 0, k, alpha, beta), rtol=0, atol=1e-11)
    np.testing.assert_allclose(after_passes, prob_effective(n, n, k, alpha, beta), rtol=0, atol=1e-11)


def test_moments_of_point_masses_by_hand():
    """A fifth of rate 0 and four fifths of rate 1/2: E[(1-r)^n] = 0.2 + 0.8 / 2^n, E[r^n] = 0.8 / 2^n for n > 0."""
    moments = mixture_moments(2, np.array([0.0, 0.5]), np.array([0.2, 0.8]))
    np.testing.assert_allclose(moments.all_fail, [1, 0.6, 0.4, 0.3, 0.25])
    np.testing.assert_allclose(moments.all_pass, [1, 0.4, 0.2, 0.1, 0.05])
    assert moments.k == 2 and moments.effective == pytest.approx(0.4)
    # After one failure the group of 2 is mixed with chance 1 - 0.4 / 0.6; after one success, 1 - 0.2 / 0.4.
    np.testing.assert_allclose(moments.chance_tables(), [[0.4, 1 / 3, 0], [0.4, 1 / 2, 0]])


def test_the_chance_to_commit_stops_at_the_boundary():
    """Rates uniform, k = 8: E[(1-r)^n] = 1 / (n+1). All-fail abandoned after 4, all-pass never."""
    after_fails, after_passes = beta_moments(8, 1, 1).commit_tables(all_fail=4, all_pass=8)
    np.testing.assert_allclose(after_fails[[1, 2, 3, 4, 5, 8]], [1 - 2 / 5, 1 - 3 / 5, 1 - 4 / 5, 0, 0, 0])
    np.testing.assert_allclose(after_passes[[1, 4, 8]], [1 - 2 / 9, 1 - 5 / 9, 0])
    assert after_fails[0] == after_passes[0] == pytest.approx(1 - 1 / 5 - 1 / 9)


def test_of_a_prefix_that_cannot_happen_nothing_is_expected():
    moments = RateMoments(np.array([1.0, 0, 0, 0, 0]), np.ones(5))  # every rate is 1
    np.testing.assert_array_equal(moments.chance_tables(), np.zeros((2, 3)))
    np.testing.assert_array_equal(moments.commit_tables(1, 2), np.zeros((2, 3)))
