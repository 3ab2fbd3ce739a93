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
        self._ranked = np.empty(0, dtype=np.int64)  # candidates of this step, best first
        self._batches: list[int] = []  # how many of them were ranked together
        self._num_opened = 0
        self._pool_size = 0

    @abstractmethod
    def scores(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """How much each of `candidates` (C,) is wanted in this step, (C,) float64."""

    def begin_step(self, step: int, opens_at_least: int) -> None:
        self._order.begin_step(step)
        self._pool_size = int(np.ceil(self.candidate_ratio * (self.groups_per_step or opens_at_least)))
        self._ranked, self._batches, self._num_opened = np.empty(0, dtype=np.int64), [], 0
        self._rank_more()

    def select(self, count: int) -> NDArray[np.int64]:
        while self._ranked.size < self._num_opened + count and self._rank_more():
            pass
        taken = self._ranked[self._num_opened : self._num_opened + count]
        self._num_opened += taken.size
        return taken

    def give_back(self, count: int) -> None:
        self._num_opened -= count
        while len(self._batches) > 1 and self._ranked.size - self._batches[-1] >= self._num_opened:
            size = self._batches.pop()
            self._ranked = self._ranked[:-size]
            self._order.give_back(size)

    def state_dict(self) -> dict[str, Any]:
        return {
            "order": self._order.state_dict(),
            "ranked": self._ranked.copy(),
            "batches": list(self._batches),
            "num_opened": self._num_opened,
            "pool_size": self._pool_size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._order.load_state_dict(state["order"])
        self._ranked = np.array(state["ranked"], dtype=np.int64)
        self._batches, self._num_opened = [int(size) for size in state["batches"]], int(state["num_opened"])
        self._pool_size = int(state["pool_size"])

    def _rank_more(self) -> bool:
        """Rank the next candidates behind those there are; False if the pool has no more."""
        candidates = self._order.select(self._pool_size)
        best_first = candidates[np.argsort(-self.scores(candidates), kind="stable")]
        self._ranked = np.append(self._ranked, best_first)
        if candidates.size:
            self._batches.append(candidates.size)
        return bool(candidates.size)
