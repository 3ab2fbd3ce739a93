"""Settings: the grid of SARA's parameters that a replay tries.

Owns the grid and which of its points differ at all. Builds the allocators that training uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sara.allocation import DynamicSamplingAllocator, SequentialAllocator
from sara.replay.expectation import StoppingPoints, stopping_points

TAUS = tuple(tenths / 10 for tenths in range(1, 10))
MAX_PROBES = 24


@dataclass(frozen=True)
class Setting:
    """Parameters of a `SequentialAllocator`; audits are left out, for a log shows what abandoned groups became."""

    k: int
    tau_low: float = 0.5
    probe: int = 4
    increment: int = 4
    alpha0: float = 1.0
    beta0: float = 1.0
    on_commit: Literal["fill", "stop"] = "fill"

    def allocator(self) -> SequentialAllocator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a grid holds settings that save nothing, and shows it
            return SequentialAllocator(**asdict(self), audit_rate=0.0)

    def overrides(self) -> str:
        """As training takes them on its command line, those that are not the defaults of an allocator left out."""
        named = {name: getattr(self, name) for name in ("k", "tau_low", "probe", "increment")}
        named |= {name: getattr(self, name) for name in ("alpha0", "beta0") if getattr(self, name) != 1}
        named |= {"on_commit": self.on_commit} if self.on_commit != "fill" else {}
        return " ".join(f"allocation.{name}={value}" for name, value in named.items())


@dataclass(frozen=True)
class Grid:
    """What to try: every combination that fits.

    probes     None: from 1 to k - 1, all of them or MAX_PROBES evenly spread; a probe of n is how a prompt is dropped
               after n equal outcomes in one round
    increment  None: the probe again
    """

    ks: tuple[int, ...]
    taus: tuple[float, ...] = TAUS
    probes: tuple[int, ...] | None = None
    increment: int | None = None
    alpha0: float = 1.0
    beta0: float = 1.0
    on_commit: Literal["fill", "stop"] = "fill"

    def settings(self, k: int) -> list[Setting]:
        """Those of group size k, probes of k and more left out. Raises ValueError on what no allocator takes."""
        fitting = [
            Setting(k, tau, probe, self.increment or probe, self.alpha0, self.beta0, self.on_commit)
            for probe in self.probes or default_probes(k)
            if probe < k
            for tau in self.taus
        ]
        if not fitting:
            probes = ", ".join(map(str, self.probes or default_probes(k)))
            raise ValueError(f"probe {probes} leaves nothing to decide at k = {k}; expected less than k")
        return fitting


def stopping_points_of_ds(k: int) -> StoppingPoints:
    return stopping_points(DynamicSamplingAllocator(k=k, max_gen_batches=None))


def fares_alike(points: StoppingPoints) -> tuple:
    """Settings of equal keys generate and keep the same; only their rounds may differ."""
    seen = () if points.is_filled else tuple(min(n, max(points.fail, points.passed)) for n in points.checkpoints)
    return points.k, points.fail, points.passed, points.is_filled, seen


def default_ks(log_k: int) -> tuple[int, ...]:
    """The group size of the log, and half of it where a group can still be probed."""
    return (log_k, log_k // 2) if log_k >= 8 else (log_k,)


def default_probes(k: int) -> tuple[int, ...]:
    count = min(k - 1, MAX_PROBES)
    return tuple(sorted({round(1 + i * (k - 2) / max(count - 1, 1)) for i in range(count)}))


def require_ks(ks: Sequence[int], largest: int) -> None:
    """Raise ValueError unless every k is between 2 and the size of the largest group."""
    for k in ks:
        if not 2 <= k <= largest:
            raise ValueError(f"k = {k}; expected 2 to {largest}, the size of the largest group in the log")
