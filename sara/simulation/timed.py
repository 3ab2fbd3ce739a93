"""Time in a simulation: rollouts on a limited number of places, one token of each in every decode step.

Owns the clock. A source of rewards and lengths becomes one that takes its time, in rounds or in a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Draws, Outcomes
from sara.allocation.ledger import DrawName
from sara.collection import RolloutSource

Result = tuple[int, int]  # reward, tokens


class TimedSource:
    """Runs the draws of `source` side by side, as an engine does that batches continuously.

    places  rollouts that run at the same time
    clock   decode steps so far; each costs the same, however many rollouts run

    A rollout of T tokens ends T decode steps after it started.
    """

    def __init__(self, source: RolloutSource, places: int) -> None:
        if places < 1:
            raise ValueError(f"places = {places}; expected at least 1")
        self.source, self.places, self.clock = source, int(places), 0
        self._results: dict[DrawName, Result] = {}  # of all that were started in this step
        self._ends: dict[DrawName, int] = {}  # of those that run, when they end
        self._queue: list[tuple[int, DrawName]] = []  # a heap of the ends; aborted rollouts stay in it
        self._step: int | None = None

    @property
    def num_free(self) -> int:
        return self.places - len(self._ends)

    def start(self, step: int, draws: Draws) -> None:
        assert draws.size <= self.num_free, f"{draws.size} draws for {self.num_free} free places"
        if not draws.size:
            return
        if step != self._step:
            self._step, self._results = step, {}
        results = zip(*(column.tolist() for column in self.source.draw(step, draws)), strict=True)
        for name, result in zip(draws.names(), results, strict=True):
            self._results[name], self._ends[name] = result, self.clock + result[1]
            heappush(self._queue, (self._ends[name], name))

    def advance(self) -> tuple[Draws, Outcomes]:
        """Go on to when the next rollout ends; those that end then, by prompt, slot and attempt."""
        ended: list[DrawName] = []
        while self._queue and (not ended or self._queue[0][0] == self.clock):
            end, name = heappop(self._queue)
            if self._ends.get(name) == end:
                del self._ends[name]
                self.clock = end
                ended.append(name)
        return Draws.of(ended), _outcomes([self._results[name] for name in ended])

    def abort(self, draws: Draws) -> NDArray[np.int64]:
        tokens = [self._results[name][1] - (self._ends.pop(name, self.clock) - self.clock) for name in draws.names()]
        return np.array(tokens, dtype=np.int64)

    def draw(self, step: int, draws: Draws) -> Outcomes:
        """A round: each draw starts as soon as a place is free, and the round ends with the last of them."""
        names = draws.names()
        waiting = names
        while waiting or self._ends:
            num_free = self.num_free
            self.start(step, Draws.of(waiting[:num_free]))
            waiting = waiting[num_free:]
            self.advance()
        return _outcomes([self._results[name] for name in names])


def _outcomes(results: Sequence[Result]) -> Outcomes:
    rewards, tokens = np.array(results, dtype=np.int64).reshape(-1, 2).T
    return Outcomes(rewards.astype(np.int8), tokens)
