from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.allocation import prob_effective

# Priors as (numerator of alpha0, numerator of beta0, common denominator): exact in integers.
PRIORS = [
    (1, 1, 1),
    (1, 3, 10),
    (1, 1, 1000),
    (1, 10**6, 1000),
    (10**6, 1, 1000),
    (50, 50, 1),
    (10**7, 10**7, 1),
    (10**9, 1, 10**3),
]


def exact_prob_effective(n: int, s: int, k: int, prior: tuple[int, int, int]) -> float:
    """Sum the Beta-binomial pmf of the k - n rollouts to come over every total that is mixed, in integers."""
    a, b, unit = prior
    a, b, to_come = a + s * unit, b + (n - s) * unit, k - n
    term = prod(b + i * unit for i in range(to_come))  # 0 successes to come, times the common denominator
    total = mixed = 0
    for successes in range(to_come + 1):
        total += term
        mixed += term if 0 < s + successes < k else 0
        if successes < to_come:
            term = term * (to_come - successes) * (a + successes * unit)
            term //= (successes + 1) * (b + (to_come - successes - 1) * unit)
    assert total == prod(a + b + i * unit for i in range(to_come))  # the pmf sums to 1
    return mixed / total


def prefixes(k: int) -> list[tuple[int, int]]:
    sizes = sorted({n for n in (0, 1, 2, 3, k // 2, k - 2, k - 1, k) if 0 <= n <= k})
    return sorted({(n, s) for n in sizes for s in (0, 1, n // 2, n - 1, n) if 0 <= s <= n})


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 16, 61, 128])
def test_prob_effective_is_the_beta_binomial_sum(k, prior):
    a, b, unit = prior
    for n, s in prefixes(k):
        assert prob_effective(n, s, k, a / unit, b / unit) == pytest.approx(
            exact_prob_effective(n, s, k, prior), rel=0, abs=1e-12
        )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [512, 1024])
def test_prob_effective_is_exact_for_large_groups(k, prior):
    a, b, unit = prior
    for n, s in [(0, 0), (1, 0), (k // 2, k // 2), (k - 1, 0), (7, 3)]:
        assert prob_effective(n, s, k, a / unit, b / unit) == pytest.approx(
            exact_prob_effective(n, s, k, prior), rel=0, abs=1e-12
        )


@pytest.mark.parametrize(("alpha0", "beta0"), [(1.0, 1.0), (0.1, 0.3), (4.0, 0.5)])
def test_prob_effective_is_the_share_of_mixed_continuations(alpha0, beta0):
    """Every one of the 2^(k-n) continuations, weighted by its predictive probability rollout by rollout."""
    k = 6
    for n, s in zip(*np.nonzero(np.tri(k + 1, dtype=int)), strict=True):  # every 0 <= s <= n <= k
        mixed = 0.0
        for future in product((0, 1), repeat=k - n):
            probability, seen, right = 1.0, n, s
            for reward in future:
                chance = (alpha0 + right) / (alpha0 + beta0 + seen)
                probability *= chance if reward else 1 - chance
                seen, right = seen + 1, right + reward
            mixed += probability * (0 < right < k)
        assert prob_effective(n, s, k, alpha0, beta0) == pytest.approx(mixed, rel=0, abs=1e-12)


def test_uniform_prior_worked_example():
    # k = 8: after 4 equal outcomes (8 - 4) / (8 + 1) = 4/9 < 0.5, after 3 (8 - 3) / 9 = 5/9 > 0.5.
    assert prob_effective(4, 0, 8) == pytest.approx(4 / 9, abs=1e-15)
    assert prob_effective(3, 3, 8) == pytest.approx(5 / 9, abs=1e-15)
    n = np.arange(1, 9)
    np.testing.assert_allclose(prob_effective(n, 0, 8), (8 - n) / 9, atol=1e-14)
    np.testing.assert_allclose(prob_effective(n, n, 8), (8 - n) / 9, atol=1e-14)
    # Nothing seen: two of the nine equally likely totals 0..8 are saturated.
    assert prob_effective(0, 0, 8) == pytest.approx(7 / 9, abs=1e-15)
    assert prob_effective(2, 1, 8) == 1.0
    assert prob_effective(8, 8, 8) == 0.0


shapes = st.floats(1e-3, 1e3)


@st.composite
def unfinished_prefixes(draw):
    k = draw(st.integers(1, 300))
    n = draw(st.integers(0, k - 1))
    return n, draw(st.integers(0, n)), k


@given(unfinished_prefixes(), shapes, shapes)
def test_prob_effective_is_a_martingale(prefix, alpha0, beta0):
    n, s, k = prefix
    chance = (alpha0 + s) / (alpha0 + beta0 + n)
    after = chance * prob_effective(n + 1, s + 1, k, alpha0, beta0)
    after += (1 - chance) * prob_effective(n + 1, s, k, alpha0, beta0)
    assert prob_effective(n, s, k, alpha0, beta0) == pytest.approx(after, rel=0, abs=1e-12)


@given(unfinished_prefixes(), shapes, shapes)
def test_swapping_right_and_wrong_changes_nothing(prefix, alpha0, beta0):
    n, s, k = prefix
    swapped = prob_effective(n, n - s, k, beta0, alpha0)
    assert prob_effective(n, s, k, alpha0, beta0) == pytest.approx(swapped, rel=0, abs=1e-13)


@given(st.integers(2, 200), shapes, shapes)
def test_each_further_equal_outcome_lowers_the_chance(k, alpha0, beta0):
    n = np.arange(1, k + 1)
    for chances in (prob_effective(n, 0, k, alpha0, beta0), prob_effective(n, n, k, alpha0, beta0)):
        assert (np.diff(chances) <= 0).all()
        assert chances[-1] == 0
        assert ((chances >= 0) & (chances <= 1)).all()


def test_arrays_of_priors_and_sizes_agree_with_scalars():
    rng = np.random.default_rng(0)
    k = rng.integers(1, 600, 300)
    n = rng.integers(0, k + 1)
    s = np.where(rng.random(300) < 0.5, 0, n)
    alpha0, beta0 = np.exp(rng.uniform(-6, 6, (2, 300)))
    one_by_one = [prob_effective(*row) for row in zip(n, s, k, alpha0, beta0, strict=True)]
    np.testing.assert_allclose(prob_effective(n, s, k, alpha0, beta0), one_by_one, rtol=0, atol=0)


def test_arrays_of_huge_priors_and_sizes_are_the_beta_binomial_sum():
    """Where logs of Beta functions are near 1e13 and their differences worth nothing, and where k is 1,024."""
    cases = [(32, 0, 64, (10**8, 10**12, 1)), (32, 32, 64, (10**12, 10**8, 1)), (0, 0, 64, (10**8, 10**12, 1))]
    cases += [(n, s, 1024, prior) for prior in PRIORS for n, s in ((0, 0), (1, 0), (512, 512), (1023, 0))]
    expected = [exact_prob_effective(*case) for case in cases]
    n, s, k = np.array([case[:3] for case in cases]).T
    alpha0, beta0 = np.array([(a / unit, b / unit) for *_, (a, b, unit) in cases]).T
    chances = prob_effective(n, s, k, alpha0, beta0)
    assert chances[0] == pytest.approx(0.0032, abs=1e-4)
    np.testing.assert_allclose(chances, expected, rtol=0, atol=1e-12)
    assert ((chances >= 0) & (chances <= 1)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("alpha0", "beta0"), [(1e12, 1e-8), (1e-8, 1e12), (1e-300, 1e300), (1e-12, 1e-12)])
def test_an_extreme_prior_neither_warns_nor_leaves_the_range(alpha0, beta0):
    """With nothing seen of k = 2, p_eff = 2ab / ((a + b)(a + b + 1))."""
    a, b = Fraction(alpha0), Fraction(beta0)
    expected = float(2 * a * b / ((a + b) * (a + b + 1)))
    for chance in (prob_effective(0, 0, 2, alpha0, beta0), prob_effective(0, 0, [2], alpha0, beta0)[0]):
        assert chance == pytest.approx(expected, rel=0, abs=1e-12)
        assert 0 <= chance <= 1


def test_prob_effective_broadcasts():
    table = prob_effective(np.arange(5)[:, None], np.zeros(3, dtype=int), 4)
    assert table.shape == (5, 3)
    np.testing.assert_allclose(table[:, 1], [3 / 5, 3 / 5, 2 / 5, 1 / 5, 0], atol=1e-15)
    assert prob_effective([], [], 4).shape == (0,)
    assert isinstance(prob_effective(1, 0, 4), float)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((9, 0, 8), r"n = 9; expected between 0 and k"),
        ((-1, 0, 8), r"n = -1; expected between 0 and k"),
        ((2, 3, 8), r"s = 3; expected between 0 and n"),
        ((2, [0, -1], 8), r"s = -1; expected between 0 and n"),
        ((0, 0, 0), r"k = 0; expected at least 1"),
        ((1.5, 0, 8), r"n = 1.5; expected whole numbers"),
        ((float("nan"), 0, 8), r"n = nan; expected whole numbers"),
        ((1, 0, 8, 0.0), r"alpha0 = 0.0; expected finite and above 0"),
        ((1, 0, 8, 1.0, [1.0, float("inf")]), r"beta0 = inf; expected finite and above 0"),
    ],
)
def test_prob_effective_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        prob_effective(*arguments)
