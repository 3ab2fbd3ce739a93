"""Moments of a prior over success rates: all that abandoning saturated prefixes ever needs to know of it.

Owns E[(1-r)^n] and E[r^n], the chances that a fresh prompt's first n rollouts all fail or all pass, for any
prior. Never learns and never decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RateMoments(NamedTuple):
    """The two ways of a prefix to be saturated, by its length.

    all_fail  (k+3,) float64, E[(1-r)^n] for n = 0..k+2, falling from 1
    all_pass  (k+3,) float64, E[r^n]

    The two entries beyond k give E[(1-r)^n r] and E[(1-r)^n r^2] by differences, for n up to k.
    """

    all_fail: NDArray[np.float64]
    all_pass: NDArray[np.float64]

    @property
    def k(self) -> int:
        return self.all_fail.size - 3

    @property
    def effective(self) -> float:
        """The chance that a fresh prompt's group of k is effective."""
        return float(1 - self.all_fail[self.k] - self.all_pass[self.k])

    def chance_tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """p_eff of every saturated prefix, by n: after n failures, and after n successes; each (k+1,) float64.

        1 - E[(1-r)^k] / E[(1-r)^n] and its mirror image; with nothing seen, `effective`.
        """
        tables = tuple(1 - _ratio(chances[self.k], chances[: self.k + 1]) for chances in self)
        for table in tables:
            table[0] = self.effective
        return tables

    def commit_tables(self, all_fail: int, all_pass: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The chance of every saturated prefix to be mixed before it is abandoned after `all_fail` or `all_pass`."""
        tables = []
        for chances, boundary in zip(self, (all_fail, all_pass), strict=True):
            table = 1 - _ratio(chances[boundary], chances[: self.k + 1])
            table[0] = 1 - self.all_fail[all_fail] - self.all_pass[all_pass]
            tables.append(np.maximum(table, 0.0))  # beyond the boundary nothing follows
        return tuple(tables)


def beta_moments(k: int, alpha: float, beta: float) -> RateMoments:
    """Moments of Beta(alpha, beta): E[(1-r)^n] is the product over i < n of (beta+i) / (alpha+beta+i)."""
    i = np.arange(k + 2)
    falls = [np.cumsum(np.log1p(-turns / (alpha + beta + i))) for turns in (alpha, beta)]
    return RateMoments(*(np.exp(np.append(0.0, fall)) for fall in falls))


def mixture_moments(k: int, rates: NDArray[np.float64], weights: NDArray[np.float64]) -> RateMoments:
    """Moments of point masses `weights` (G,), which sum to 1, at `rates` (G,) in [0, 1]."""
    n = np.arange(k + 3)[:, None]  # (k+3, 1)
    return RateMoments((1 - rates) ** n @ weights, rates**n @ weights)


def _ratio(end: float, chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """end / chances, and 1 where a prefix cannot happen: nothing is expected of it."""
    return np.divide(end, chances, out=np.ones_like(chances), where=chances > 0)
