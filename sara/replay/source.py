"""What the collection loop draws from in a replay: a log of finished groups, opened in logged order.

Owns the `RolloutSource` and the `Selector` over a log. A prompt of the loop is a group of the log; slot j is its
j-th rollout. Never makes anything up: a rollout that the log does not hold cannot be drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Draws, Outcomes
from sara.replay.grouplog import GroupLog
from sara.seeds import rollout_seeds
from sara.selection import Evidence, Selector


class LoggedRollouts:
    """Draws rollouts from the groups of a log.

    order  (N,) int64, for each rollout of the log the one that takes its place; None: as logged
    """

    def __init__(self, log: GroupLog, order: NDArray[np.int64] | None = None) -> None:
        self.log, self.order = log, order

    def draw(self, step: int, draws: Draws) -> Outcomes:
        assert (draws.slots < self.log.sizes[draws.prompts]).all(), "a rollout that the log does not hold was drawn"
        rows = self.log.offsets[draws.prompts] + draws.slots
        if self.order is not None:
            rows = self.order[rows]
        lengths = np.zeros(rows.size, dtype=np.int64) if self.log.lengths is None else self.log.lengths[rows]
        return Outcomes(self.log.rewards[rows], lengths)


class LoggedOrder(Selector):
    """Hands out the given groups, each once, in order."""

    def __init__(self, groups: NDArray[np.int64]) -> None:
        self.groups, self._next = groups, 0

    def begin_step(self, step: int, opens_at_least: int = 1) -> None:
        pass

    def select(self, count: int) -> NDArray[np.int64]:
        taken = self.groups[self._next : self._next + count]
        self._next += taken.size
        return taken

    def give_back(self, count: int) -> None:
        self._next -= count

    def end_step(self, evidence: Evidence) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._next = int(state["next"])


def shuffled_order(log: GroupLog, seed: int) -> NDArray[np.int64]:
    """(N,) int64: a random order of the rollouts inside each group, for `LoggedRollouts`."""
    group = log.group_of
    slots = np.arange(group.size) - log.offsets[group]
    return np.lexsort((rollout_seeds(seed, 0, group, slots), group))
