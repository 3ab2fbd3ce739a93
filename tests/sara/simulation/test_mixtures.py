from __future__ import annotations

import numpy as np
import pytest

from sara.simulation.mixtures import POPULATIONS, RateMixture


def test_moments_by_hand():
    """Half a point mass at 0, half Beta(1, 2), with E[r] = 1/3 and E[r^2] = 1/6."""
    mixture = RateMixture.of([{"weight": 3, "rate": 0}, {"weight": 3, "alpha": 1, "beta": 2}])
    assert mixture.mean == pytest.approx(1 / 6)
    assert mixture.moment(2, 0) == pytest.approx(1 / 12)
    assert mixture.moment(1, 1) == pytest.approx(0.5 * (1 / 3 - 1 / 6))
    assert mixture.moment(0, 3) == pytest.approx(0.5 + 0.5 * 2 / 5)  # E[(1-r)^3] = 2 / (2 + 3) for Beta(1, 2)
    np.testing.assert_allclose(mixture.moment([[0], [1]], [0, 1]), [[1, 5 / 6], [1 / 6, 1 / 12]])


def test_point_masses_at_zero_and_one_have_no_missing_powers():
    mixture = RateMixture.of([{"rate": 0}, {"rate": 1}])
    np.testing.assert_array_equal(mixture.moment([0, 0, 5, 1], [0, 5, 0, 1]), [1, 0.5, 0.5, 0])


@pytest.mark.parametrize("name", POPULATIONS)
def test_rates_that_are_drawn_have_the_moments(name):
    mixture, count = POPULATIONS[name], 200_000
    rates = mixture.sample(count, np.random.default_rng(3))
    for a, b in ((1, 0), (2, 0), (0, 8), (8, 0), (1, 1)):
        values = rates**a * (1 - rates) ** b
        assert values.mean() == pytest.approx(float(mixture.moment(a, b)), abs=4.5 * values.std() / np.sqrt(count))
    again = mixture.sample(count, np.random.default_rng(3))
    np.testing.assert_array_equal(rates, again)


def test_a_histogram_is_a_mixture_of_point_masses_and_skips_empty_bins():
    mixture = RateMixture.from_histogram([0, 0.5, 1], [6, 2, 0])
    np.testing.assert_array_equal(mixture.points, [0, 0.5])
    assert mixture.moment(1, 1) == pytest.approx(0.25 * 0.25)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([], "without components"),
        ([{"weight": 1, "alpha": 1}], r"component \{'weight': 1, 'alpha': 1\}; expected weight with alpha and beta"),
        ([{"rate": 0.5, "alpha": 1, "beta": 1}], "expected weight with alpha and beta, or with rate"),
        ([{"rate": 1.5}], r"population rate = 1\.5; expected a number in \[0, 1\]"),
        ([{"rate": float("nan")}], "population rate = nan"),
        ([{"weight": -1, "rate": 0.5}], "population weight = -1"),
        ([{"weight": 0, "rate": 0.5}], "weights sum to 0"),
        ([{"alpha": 0, "beta": 1}], "population alpha = 0"),
        ([{"alpha": 1, "beta": float("inf")}], "population beta = inf"),
    ],
)
def test_a_population_says_what_is_wrong(components, message):
    with pytest.raises(ValueError, match=message):
        RateMixture.of(components)


def test_a_histogram_says_what_is_wrong():
    with pytest.raises(ValueError, match="2 rates with 1 counts"):
        RateMixture.from_histogram([0, 1], [3])
    with pytest.raises(ValueError, match="population weight = -3"):
        RateMixture.from_histogram([0, 1], [3, -3])
    with pytest.raises(ValueError, match="sum to 0"):
        RateMixture.from_histogram([0, 1], [0, 0])
