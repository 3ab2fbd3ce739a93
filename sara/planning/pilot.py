"""What a pilot says of a pool: the distribution of success rates behind counts of successes.

Owns the estimate. A prompt with 0 successes in 8 is not a prompt of rate 0, so counts are not taken for rates: the
mixture is the one that makes the counts most likely (nonparametric maximum likelihood; Laird 1978).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from sara.simulation.exact import ds_costs
from sara.simulation.mixtures import RateMixture

_GRID = np.sin(np.pi * np.arange(129) / 256) ** 2  # (G,) rates, dense near 0 and 1, both included
_EVEN = np.full(_GRID.size, 1 / _GRID.size)  # where every fit starts
_MAX_STEPS, _REFIT_STEPS = 5000, 300
_TOLERANCE = 1e-13  # mean gain in log-likelihood of a prompt at which the fit has converged
_NEGLIGIBLE = 1e-7


class Counts(NamedTuple):
    """How many prompts had each result: all (M,), n at least 1 and 0 <= successes <= n."""

    n: NDArray[np.int64]
    successes: NDArray[np.int64]
    prompts: NDArray[np.float64]


def fit_rates(counts: Counts) -> RateMixture:
    """The mixture of point masses under which the counts are most likely, found by expectation-maximisation."""
    weights = _fit(_likelihoods(counts), counts.prompts, _EVEN, _MAX_STEPS)
    is_there = weights > _NEGLIGIBLE
    return RateMixture.from_histogram(_GRID[is_there], weights[is_there])


def refit_rates(counts: Counts, num_refits: int, rng: np.random.Generator) -> list[RateMixture]:
    """Fits to as many pilots of the same size, drawn from the prompts of this one (bootstrap)."""
    likelihoods, total = _likelihoods(counts), int(counts.prompts.sum())
    draws = rng.multinomial(total, counts.prompts / total, size=num_refits)
    start = (_fit(likelihoods, counts.prompts, _EVEN, _MAX_STEPS) + 0.01 * _EVEN) / 1.01
    fits = (_fit(likelihoods, drawn.astype(float), start, _REFIT_STEPS) for drawn in draws)
    return [RateMixture.from_histogram(_GRID, weights) for weights in fits]


def mixed_share_interval(counts: Counts, k: int, num_refits: int, rng: np.random.Generator) -> tuple[float, float]:
    """95% interval of the share of groups of k that are mixed: the bootstrap's.

    Where no group of the pilot is mixed, or every one is, all its resamples are alike, and the interval is widened to
    the exact one of the pilot's own groups (Clopper and Pearson 1934): 0 of 100 leaves up to 3.6% open.
    """
    fits = [float(ds_costs(fit, k).effective) for fit in refit_rates(counts, num_refits, rng)]
    low, high = map(float, np.percentile(fits, [2.5, 97.5]))
    could_be_mixed = counts.n >= 2
    is_mixed = (counts.successes > 0) & (counts.successes < counts.n)
    groups, mixed = (int(counts.prompts[rows].sum()) for rows in (could_be_mixed, is_mixed))
    if 0 < mixed < groups:
        return low, high
    exact = binomtest(mixed, groups).proportion_ci(0.95, method="exact") if groups else (0.0, 1.0)
    return min(low, float(exact[0])), max(high, float(exact[1]))


def _likelihoods(counts: Counts) -> NDArray[np.float64]:
    """(M, G): the chance of each result at each rate, up to a factor for each result."""
    s, fails = counts.successes[:, None].astype(float), (counts.n - counts.successes)[:, None].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(s > 0, s * np.log(_GRID), 0.0) + np.where(fails > 0, fails * np.log1p(-_GRID), 0.0)
    return np.exp(logs - logs.max(axis=1, keepdims=True))  # a prompt of 1,000 rollouts would underflow


def _fit(
    likelihoods: NDArray[np.float64], prompts: NDArray[np.float64], start: NDArray[np.float64], max_steps: int
) -> NDArray[np.float64]:
    """(G,) weights that sum to 1, from `start` uphill."""
    weights, last = start, -np.inf
    shares = prompts / prompts.sum()  # (M,)
    for _ in range(max_steps):
        chances = likelihoods @ weights  # (M,)
        weights = weights * (likelihoods.T @ (shares / chances))
        fitted = float(shares @ np.log(chances))
        if fitted - last < _TOLERANCE:
            break
        last = fitted
    return weights / weights.sum()
