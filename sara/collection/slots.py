"""The slots of a stream: where each rollout of each group stands, from being granted to being read.

Owns the tables. Reading goes slot by slot from 0 and never past one that has not ended, so what has been read of a
group is a prefix of it, whatever ended first. Never decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sara.allocation import MISSING

Places = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows and slots, both (N,)


class SlotState:
    """Where a rollout stands. Plain numbers: members of an enumeration are slow to look up, and this is often."""

    UNGRANTED = 0
    WAITING = 1  # for a place
    RUNNING = 2
    ENDED = 3  # its reward is known, or MISSING for good
    GIVEN_UP = 4  # not wanted now
    SKIPPED = 5  # there was no budget left to draw it again


_TABLES = {"states": np.int8, "rewards": np.int8, "tokens": np.int64, "attempts": np.int64}
_COLUMNS = ("read", "first")


class Slots:
    """Tables of one row for each opened prompt and one column for each slot of its group, (O, k).

    states    int8, of `SlotState`
    rewards   int8, of slots that have ended
    tokens    int64, likewise
    attempts  int64, redraws so far
    read      (O,) int64, slots that have been read
    first     (O,) int64, slots of the first grant
    """

    def __init__(self, k: int) -> None:
        self.k = k
        for name, kind in _TABLES.items():
            setattr(self, name, np.zeros((0, k), dtype=kind))
        self.read = self.first = np.zeros(0, dtype=np.int64)

    def extend(self, num_rows: int) -> None:
        """Add rows without any grant, up to `num_rows`."""
        fresh = num_rows - self.read.size
        if not fresh:
            return
        for name in _TABLES:
            setattr(self, name, np.pad(getattr(self, name), ((0, fresh), (0, 0))))
        self.read, self.first = np.pad(self.read, (0, fresh)), np.pad(self.first, (0, fresh))

    def grant(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Let rollouts wait for a place."""
        self.states[rows, slots] = SlotState.WAITING
        granted = np.bincount(rows, minlength=self.first.size)
        self.first = np.where(self.first == 0, granted, self.first)

    def start(self, rows: NDArray[np.bool_], places: int) -> Places:
        """Start up to `places` of those that wait in `rows` (O,) bool, the earliest row first, then the lowest slot."""
        where = tuple(column[:places] for column in self.find(SlotState.WAITING, rows))
        self.states[where] = SlotState.RUNNING
        return where

    @property
    def is_any_waiting(self) -> bool:
        return bool((self.states == SlotState.WAITING).any())

    def readable(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Those of `rows` (O,) bool whose next slot has ended or is skipped, (R,) int64."""
        rows = np.flatnonzero(rows & (self.read < self.k))
        states = self.states[rows, self.read[rows]]
        return rows[(states == SlotState.ENDED) | (states == SlotState.SKIPPED)]

    def find(self, state: int, rows: NDArray[np.bool_]) -> Places:
        """The slots of `rows` (O,) bool in a state, by row, then by slot."""
        return np.nonzero((self.states == state) & rows[:, None])

    def find_unread(self, rows: NDArray[np.bool_]) -> Places:
        """The slots of `rows` (O,) bool that ended with a reward and have not been read."""
        is_unread = np.arange(self.k) >= self.read[:, None]
        return np.nonzero((self.states == SlotState.ENDED) & (self.rewards != MISSING) & is_unread & rows[:, None])

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in (*_TABLES, *_COLUMNS)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`; what was running then has to be drawn again."""
        for name, kind in (_TABLES | dict.fromkeys(_COLUMNS, np.int64)).items():
            setattr(self, name, np.array(state[name], dtype=kind))
        self.states[self.states == SlotState.RUNNING] = SlotState.WAITING
