"""What the outcomes themselves say of abandoning, whatever the success rates: an estimate, and how sure it is.

Owns the safeguard of learned boundaries. What a plan brings and costs is linear in pi_S, the chance that a fresh
prompt's k rollouts hold S right ones. Rollouts of a prompt are exchangeable: every order of them is as likely. So
whole groups and abandoned prefixes alike are draws from a multinomial over S that is seen only in part, which can be
estimated without a word about success rates. The estimate wavers more than a learned prior's, but it does not lean
towards rates that are spread out, as any prior fitted to few prompts does, and its errors are known. Never decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import gammaln

from sara.allocation.moments import RateMoments
from sara.allocation.outcome_table import Cells, OutcomeTable

_PSEUDO_COUNT = 1.0  # prompts' worth of every S alike that the estimate is held to
_ITERATIONS = 100  # of EM
_NEVER_RULED_OUT = 1e-12
_STANDARD_ERRORS = 1.0
_AT_FIRST = 1.75


class Evidence(NamedTuple):
    """Moments as observed, and how far they may be off.

    moments     the estimate
    deviations  the same with arrays of (D, k+3): independent deviations of it, of one standard error each; the
                variance of anything linear in the moments is the sum of the squares of its D deviations
    demand      standard errors by which a gain must exceed none to be believed
    """

    moments: RateMoments
    deviations: RateMoments
    demand: float


def gather(table: OutcomeTable, chances: NDArray[np.float64]) -> Evidence:
    """The evidence in a table that holds anything; `chances` (k+1,) of each S, from which the estimate sets out."""
    whole, prefixes, counts = _split(table.cells, table.k)
    pi = _most_likely(whole, prefixes, counts, np.maximum(chances, _NEVER_RULED_OUT))
    off = _deviations(pi, whole, prefixes, counts) * np.sqrt(table.mean_weight)
    moments, deviations = ([np.pad(sides @ of, _two_more(of)) for sides in _saturated(table.k)] for of in (pi, off))
    return Evidence(RateMoments(*moments), RateMoments(*(of.T for of in deviations)), demanded(table.num_steps))


def demanded(num_steps: float) -> float:
    """Standard errors that a gain must show after outcomes worth `num_steps` steps.

    More at first: looks at few outcomes are many and independent, and what they are wrong by is large. Of true gain
    g and standard error e, it costs E[-g; believed] to believe it; with one standard error demanded that is at most
    0.03 e, at g = -0.7 e, and with 1.75 it is 0.006 e.
    """
    return max(_STANDARD_ERRORS, _AT_FIRST * num_steps**-0.25)


def _split(cells: Cells, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Prompts seen whole by S (k+1,), pseudo-counts included; chances of other prefixes by S (C, k+1), and counts."""
    is_whole = cells.n == k
    whole = np.bincount(cells.s[is_whole], cells.count[is_whole], minlength=k + 1) + _PSEUDO_COUNT / (k + 1)
    is_partial = ~is_whole
    return whole, _prefix_chances(k, cells.n[is_partial], cells.s[is_partial]), cells.count[is_partial]


def _most_likely(
    whole: NDArray[np.float64], prefixes: NDArray[np.float64], counts: NDArray[np.float64], pi: NDArray[np.float64]
) -> NDArray[np.float64]:
    for _ in range(_ITERATIONS):
        expected = whole + pi * (prefixes.T @ (counts / (prefixes @ pi)))
        pi = np.maximum(expected / expected.sum(), _NEVER_RULED_OUT)
    return pi


def _deviations(
    pi: NDArray[np.float64], whole: NDArray[np.float64], prefixes: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(k+1, D) columns whose outer products add up to the covariance of pi, the inverse of its Fisher information.

    In deviations relative to pi, a prompt seen whole adds 1 to the information on its S, and one seen in part the
    outer product of the chances of each S given what was seen. Pi sums to 1, so that direction is taken out.
    """
    given = prefixes * pi
    given /= given.sum(axis=1, keepdims=True)
    root = cholesky(np.diag(whole) + (given.T * counts) @ given, lower=True)
    total = solve_triangular(root, pi, lower=True)
    total /= np.linalg.norm(total)
    off = solve_triangular(root, np.eye(pi.size) - np.outer(total, total), lower=True, trans=1)
    return off * pi[:, None]


@lru_cache(maxsize=8)
def _saturated(k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(k+1, k+1) each, [n, S]: the chance that the first n of k rollouts, S of them right, all fail; that all pass."""
    n = np.arange(k + 1)
    return _prefix_chances(k, n, np.zeros_like(n)), _prefix_chances(k, n, n)


def _prefix_chances(k: int, n: NDArray[np.int64], s: NDArray[np.int64]) -> NDArray[np.float64]:
    """(C, k+1) [prefix, S]: the chance of s right among the first n of k rollouts of which S are right."""
    n, s, right = n[:, None], s[:, None], np.arange(k + 1)
    is_possible = (s <= right) & (n - s <= k - right)
    later = np.where(is_possible, right - s, 0)
    logs = _log_choose(k - n, later) + _log_choose(n, s) - _log_choose(k, right)
    return np.where(is_possible, np.exp(logs), 0.0)


def _log_choose(n: NDArray[np.int64] | int, s: NDArray[np.int64]) -> NDArray[np.float64]:
    return gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)


def _two_more(of: NDArray[np.float64]) -> tuple[tuple[int, int], ...]:
    """Padding for the two entries beyond n = k, which no plan needs."""
    return ((0, 2), *[(0, 0)] * (of.ndim - 1))
