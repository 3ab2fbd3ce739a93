"""Beliefs: how likely a group is to become effective, given the rollouts seen so far.

Owns the closed form of the Beta-binomial predictor (the paper's "closed-form effectiveness predictor"). Never
decides: thresholds live in the allocators.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def prob_effective(
    n: ArrayLike, s: ArrayLike, k: ArrayLike, alpha0: ArrayLike = 1.0, beta0: ArrayLike = 1.0
) -> NDArray[np.float64] | np.float64:
    """p_eff: the predictive probability that a group of k is effective, after s successes in n rollouts.

    n, s           whole numbers, 0 <= s <= n <= k
    k              group size, whole numbers >= 1
    alpha0, beta0  Beta prior of the success rate, finite and > 0
    returns        float64 in [0, 1], of the shape that all five broadcast to (a scalar for scalars)

    1 for a mixed prefix; 1 - B(a, b+k) / B(a, b+n) for all-fail, 1 - B(a+k, b) / B(a+n, b) for all-pass, and
    1 - [B(a+k, b) + B(a, b+k)] / B(a, b) with nothing seen, where B is the Beta function. With the uniform
    prior that is (k-n)/(k+1) for a saturated prefix and (k-1)/(k+1) with nothing seen. Exact to 1e-12 (absolute)
    up to k = 1,024 for any prior, arrays of k and of priors included: `saturated_tables` are computed once for
    each distinct (k, alpha0, beta0).

    Raises ValueError on anything outside these ranges.
    """
    n, s, k = _whole("n", n), _whole("s", s), _whole("k", k)
    alpha0, beta0 = _positive("alpha0", alpha0), _positive("beta0", beta0)
    _require(k >= 1, "k", k, "at least 1")
    _require((n >= 0) & (n <= k), "n", n, "between 0 and k")
    _require((s >= 0) & (s <= n), "s", s, "between 0 and n")
    if k.ndim == alpha0.ndim == beta0.ndim == 0:
        if_fail, if_pass = (table[n] for table in saturated_tables(int(k), float(alpha0), float(beta0)))
    else:
        n, s, k, alpha0, beta0 = np.broadcast_arrays(n, s, k, alpha0, beta0)
        if_fail, if_pass = _look_up_saturated(n, k, alpha0, beta0)
    return np.where((s > 0) & (s < n), 1.0, np.where(s == 0, if_fail, if_pass))[()]


def saturated_tables(k: int, alpha0: float, beta0: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p_eff of every saturated prefix, to look up by n: after n failures, and after n successes.

    returns  two arrays (k+1,) float64, falling in n from p_eff(0, 0) to exactly 0 at n = k

    B(a, b+k) / B(a, b+n) is the product over i = n..k-1 of (b+i) / (a+b+i), the chance that each next rollout
    fails too; summing its logs from the far end gives every n at once, without the cancellation of `betaln`.
    """
    stays_fail = _log_stays_saturated(k, alpha0, beta0)
    stays_pass = _log_stays_saturated(k, beta0, alpha0)
    if_fail, if_pass = -np.expm1(stays_fail), -np.expm1(stays_pass)
    nothing_seen = if_fail[0] - np.exp(stays_pass[0])
    if_fail[0] = if_pass[0] = max(nothing_seen, 0.0)  # rounding alone can put it below 0, by 1e-16
    return if_fail, if_pass


def _log_stays_saturated(k: int, turns: float, stays: float) -> NDArray[np.float64]:
    """log P(rollouts n+1..k all repeat the n equal outcomes seen), for n = 0..k."""
    repeats = stays + np.arange(k)  # (k,)
    chances_to_turn = turns / (turns + repeats)
    log_repeats = np.log1p(-np.minimum(chances_to_turn, 0.5))
    is_likely = chances_to_turn > 0.5  # near 1 the digits are in the chance to repeat, which may be below 1e-16
    log_repeats[is_likely] = np.log(repeats[is_likely]) - np.log(turns + repeats[is_likely])
    return np.append(np.cumsum(log_repeats[::-1])[::-1], 0.0)  # (k+1,)


def _look_up_saturated(
    n: NDArray[np.int64], k: NDArray[np.int64], alpha0: NDArray[np.float64], beta0: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(2, *shape): p_eff after n failures and after n successes; all four arrays have the same shape."""
    settings, index = np.unique(np.stack([k, alpha0, beta0], axis=-1).reshape(-1, 3), axis=0, return_inverse=True)
    index, seen = index.ravel(), n.ravel()
    found = np.empty((2, n.size))
    order = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[order], np.arange(len(settings) + 1))
    for (size, alpha, beta), start, end in zip(settings, bounds[:-1], bounds[1:], strict=True):
        rows = order[start:end]
        found[:, rows] = np.stack(saturated_tables(int(size), float(alpha), float(beta)))[:, seen[rows]]
    return found.reshape(2, *n.shape)


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        _require(array.dtype.kind == "f" and (array == np.floor(array)), name, array, "whole numbers")
    return array.astype(np.int64)


def _positive(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    _require(np.isfinite(array) & (array > 0), name, array, "finite and above 0")
    return array


def _require(is_right: ArrayLike, name: str, values: NDArray, allowed: str) -> None:
    if not np.all(is_right):
        shown, wrong = np.broadcast_arrays(values, np.logical_not(is_right))
        raise ValueError(f"{name} = {shown[wrong].flat[0]}; expected {allowed}")
