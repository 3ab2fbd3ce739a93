"""Uniform selection: epochs over a seeded shuffle, without replacement."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sara.seeds import step_rng
from sara.selection.base import Evidence, Selector


class ShuffleSelector(Selector):
    """Every prompt once an epoch, in an order drawn from (seed, epoch).

    When an epoch ends inside a step, the prompts that the step has opened already go to the end of the next
    order: each epoch stays a permutation of the pool and no step sees a prompt twice.
    """

    def __init__(self, num_prompts: int, seed: int) -> None:
        if num_prompts < 1:
            raise ValueError(f"num_prompts = {num_prompts}; expected at least 1")
        self.num_prompts, self.seed = int(num_prompts), int(seed)
        self._epoch, self._cursor = 0, 0
        self._order = self._shuffled(epoch=0)
        self._order_before: NDArray[np.int64] | None = None  # of the epoch that ended in this step
        self._is_opened = np.zeros(self.num_prompts, dtype=bool)  # in this step

    def begin_step(self, step: int, opens_at_least: int = 1) -> None:
        self._is_opened[:] = False
        self._order_before = None

    def select(self, count: int) -> NDArray[np.int64]:
        taken = self._take(count)
        if taken.size < count:  # the epoch is over: go on in the next one, up to the first repeat
            self._begin_epoch()
            taken = np.concatenate([taken, self._take(count - taken.size)])
        return taken

    def give_back(self, count: int) -> None:
        of_this_epoch = min(count, self._cursor)
        self._put_back(of_this_epoch)
        if self._cursor == 0 and self._order_before is not None:
            self._epoch, self._cursor = self._epoch - 1, self.num_prompts
            self._order, self._order_before = self._order_before, None
            self._put_back(count - of_this_epoch)

    def end_step(self, evidence: Evidence) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {
            "num_prompts": self.num_prompts,
            "epoch": self._epoch,
            "cursor": self._cursor,
            "order": self._order.copy(),
            "order_before": None if self._order_before is None else self._order_before.copy(),
            "opened": np.flatnonzero(self._is_opened),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_same_pool(self.num_prompts, state)
        self._epoch, self._cursor = int(state["epoch"]), int(state["cursor"])
        self._order = np.array(state["order"], dtype=np.int64)
        before = state["order_before"]
        self._order_before = None if before is None else np.array(before, dtype=np.int64)
        self._is_opened[:] = False
        self._is_opened[np.asarray(state["opened"], dtype=np.int64)] = True

    def _take(self, count: int) -> NDArray[np.int64]:
        ahead = self._order[self._cursor : self._cursor + count]
        repeats = np.flatnonzero(self._is_opened[ahead])
        taken = ahead[: repeats[0]] if repeats.size else ahead
        self._cursor += taken.size
        self._is_opened[taken] = True
        return taken.copy()

    def _put_back(self, count: int) -> None:
        self._cursor -= count
        self._is_opened[self._order[self._cursor : self._cursor + count]] = False

    def _begin_epoch(self) -> None:
        if self._cursor < self.num_prompts:
            return  # stopped at a repeat: the whole pool is open
        self._epoch, self._cursor, self._order_before = self._epoch + 1, 0, self._order
        order = self._shuffled(self._epoch)
        self._order = order[np.argsort(self._is_opened[order], kind="stable")]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return step_rng(self.seed, epoch, "selection: order of the epoch").permutation(self.num_prompts)


def require_same_pool(num_prompts: int, state: dict[str, Any]) -> None:
    """Raise ValueError unless a selector's state is of a pool of `num_prompts`."""
    if int(state["num_prompts"]) != num_prompts:
        raise ValueError(f"selector state is of {state['num_prompts']} prompts; expected {num_prompts}")
