"""The oracle: what a strategy that knows every prompt's success rate would spend.

In each step it takes the candidates that DPS would take (the next `candidate_ratio` * B prompts of the same seeded
shuffle), opens those whose true rate r makes a group of k most likely to be mixed, 1 - r^k - (1-r)^k, and draws
whole groups for as many prompts as groups are still wanted, round after round. Nothing is abandoned and nothing is
surplus: it pays k for a group, and again k for each of the few groups that turn out saturated all the same.

Only a simulation can run it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sara.allocation import DynamicSamplingAllocator, Ledger, Limits
from sara.selection import Evidence, RankingSelector
from sara.simulation.source import PopulationSource

ORACLE = "oracle"


class OracleSelector(RankingSelector):
    """Ranks candidates by the chance that a group of k is mixed, under the rates of the step."""

    def __init__(self, source: PopulationSource, k: int, seed: int, candidate_ratio: int, groups_per_step: int) -> None:
        super().__init__(source.success_rates.size, seed, candidate_ratio, groups_per_step)
        self.source, self.k = source, k
        self._step = 1

    def begin_step(self, step: int, opens_at_least: int) -> None:
        self._step = step
        super().begin_step(step, opens_at_least)

    def scores(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        rates = self.source.rates(self._step, candidates)
        return 1 - rates**self.k - (1 - rates) ** self.k

    def end_step(self, evidence: Evidence) -> None:
        pass


class WholeGroupsAllocator(DynamicSamplingAllocator):
    """DS that opens as many prompts as groups are still wanted, rather than a chunk of B."""

    def num_to_open(self, ledger: Ledger, limits: Limits) -> int:
        opens = super().num_to_open(ledger, limits)
        if limits.target is None:
            return opens
        return max(min(opens, limits.target - ledger.num_committed - ledger.num_open), 0)
