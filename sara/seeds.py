"""Seeds: every random choice as a pure function of (run seed, step, what it is for).

Owns the hash that gives each rollout its own seed, the seeded order in which surplus groups are dropped, and
the generators of one step. Never holds state, so what a rollout is does not depend on who shares its batch,
in which order things happened, or whether the run was stopped in between.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, the increment of splitmix64
_ROLLOUT, _PRIORITY, _STREAM, _AUDIT = range(1, 5)  # a domain each: equal arguments never give equal values across


def rollout_seeds(
    run_seed: int, step: int, prompts: ArrayLike, slots: ArrayLike, attempt: ArrayLike = 0
) -> NDArray[np.uint64]:
    """The seed of each rollout: slot `slots[i]` of prompt `prompts[i]` in `step`, at the `attempt`-th redraw.

    prompts, slots, attempt  integers >= 0, broadcast together to (N,)
    returns                  (N,) uint64; an engine with narrower seeds keeps the low bits

    Each is a function of its own row only, so two strategies that open a prompt under one policy see the same
    rollouts (common random numbers). Raises ValueError on a negative argument.
    """
    key = _fold(_fold(_key(_ROLLOUT, run_seed, step), _words("prompts", prompts)), _words("slots", slots))
    return _fold(key, _words("attempt", attempt))


def prompt_priorities(run_seed: int, step: int, prompts: ArrayLike) -> NDArray[np.uint64]:
    """A random rank for each prompt in `step`, lowest first: who stays when more groups commit than wanted.

    prompts  (N,) integers >= 0
    returns  (N,) uint64, all different for different prompts
    """
    return _fold(_key(_PRIORITY, run_seed, step), _words("prompts", prompts))


def audit_lots(run_seed: int, step: int, prompts: ArrayLike) -> NDArray[np.float64]:
    """A uniform number in [0, 1) for each prompt in `step`, apart from its rollouts: who is audited if abandoned.

    prompts  (N,) integers >= 0
    returns  (N,) float64
    """
    return _to_unit(_fold(_key(_AUDIT, run_seed, step), _words("prompts", prompts)))


def unit_interval(seeds: NDArray[np.uint64], stream: ArrayLike = 0) -> NDArray[np.float64]:
    """One uniform number in [0, 1) for each seed; different `stream`s of one seed are independent.

    seeds    (N,) uint64
    stream   integer >= 0, the same for all or (N,)
    returns  (N,) float64, multiples of 2**-53
    """
    return _to_unit(_fold(np.asarray(seeds, dtype=np.uint64), _words("stream", stream)))


def step_rng(run_seed: int, step: int, purpose: str) -> np.random.Generator:
    """A generator for one `purpose` of one step; the same three arguments always give the same stream."""
    digest = hashlib.blake2b(f"{int(run_seed)}/{int(step)}/{purpose}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def _to_unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _key(domain: int, run_seed: int, step: int) -> NDArray[np.uint64]:
    key = _mix(np.asarray([domain], dtype=np.uint64) * _GOLDEN)
    return _fold(_fold(key, _words("run_seed", run_seed)), _words("step", step))


def _words(name: str, values: ArrayLike) -> NDArray[np.uint64]:
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0):
        raise ValueError(f"{name}: got {array.dtype} with minimum {array.min()}; expected integers >= 0")
    return np.atleast_1d(array).astype(np.uint64)


def _fold(key: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Absorb one word; for a given key the map word -> result is a bijection of 64-bit words."""
    return _mix((key ^ words) + _GOLDEN)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014, fig. 15; Stafford's variant 13)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
