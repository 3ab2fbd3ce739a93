"""Ranked selection: out of a shuffled pool of candidates, the prompts with the highest scores.

Owns the candidates and their order. What a score is, is the subclass's: a belief, or the truth in a simulation.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sara.selection.base import Selector
from sara.selection.shuffle import ShuffleSelector


class RankingSelector(Selector):
    """Takes candidates in the order of a seeded shuffle, which also breaks ties, and opens the best first.

    candidate_ratio   candidates for each group of the batch
    groups_per_step   B; None: what `begin_step` says the step opens

    When a step asks for more prompts than there are candidates, the next ones are taken and ranked.
    """

    def __init__(
        self, num_prompts: int, seed: int, candidate_ratio: int = 16, groups_per_step: int | None = None
    ) -> None:
        if candidate_ratio < 1:
            raise ValueError(f"candidate_ratio = {candidate_ratio}; expected at least 1")
        self.candidate_ratio, self.groups_per_step = candidate_ratio, groups_per_step
        self._order = ShuffleSelector(num_prompts, seed)
        self._ranked = np.empty(0, dtype=np.int64)  # candidates of this step not opened yet, best first
        self._pool_size = 0

    @abstractmethod
    def scores(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """How much each of `candidates` (C,) is wanted in this step, (C,) float64."""

    def begin_step(self, step: int, opens_at_least: int) -> None:
        self._order.begin_step(step)
        self._pool_size = int(np.ceil(self.candidate_ratio * (self.groups_per_step or opens_at_least)))
        self._ranked = self._ranked_candidates()

    def select(self, count: int) -> NDArray[np.int64]:
        taken = self._ranked[:count]
        self._ranked = self._ranked[count:]
        while taken.size < count:
            self._ranked = self._ranked_candidates()
            if not self._ranked.size:
                break
            missing = count - taken.size
            taken, self._ranked = np.append(taken, self._ranked[:missing]), self._ranked[missing:]
        return taken

    def state_dict(self) -> dict[str, Any]:
        return {"order": self._order.state_dict(), "ranked": self._ranked.copy(), "pool_size": self._pool_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._order.load_state_dict(state["order"])
        self._ranked = np.array(state["ranked"], dtype=np.int64)
        self._pool_size = int(state["pool_size"])

    def _ranked_candidates(self) -> NDArray[np.int64]:
        candidates = self._order.select(self._pool_size)
        return candidates[np.argsort(-self.scores(candidates), kind="stable")]
