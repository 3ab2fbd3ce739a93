"""The ledger of one step: what every opened prompt was given, what came back, and what became of it.

Owns the counts. Never decides: allocators read it and set fates, the collection records outcomes in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DrawName = tuple[int, int, int]  # prompt, slot, attempt
MISSING = -1  # the reward of a rollout that could not be scored: never a failure


class Fate(IntEnum):
    """What became of an opened prompt. Only OPEN, AUDITED, COMMITTED and SURPLUS may still change."""

    OPEN = 0  # may still be given rollouts
    COMMITTED = 1  # to be trained on
    ABANDONED_FAIL = 2  # all its rollouts failed
    ABANDONED_PASS = 3  # all its rollouts passed
    SURPLUS = 4  # committed, but the batch was full
    UNFINISHED = 5  # still open when the step ended
    UNSCORABLE = 6  # a rollout stayed missing after every redraw
    AUDITED = 7  # abandoned, but run on to k to see what it would have become; not trained on


class Draws(NamedTuple):
    """Rollouts to generate together. Each is (prompt, slot inside its group, attempt at that slot).

    prompts, slots, attempts  (N,) int64; attempts counts from 0
    """

    prompts: NDArray[np.int64]
    slots: NDArray[np.int64]
    attempts: NDArray[np.int64]

    @property
    def size(self) -> int:
        """How many rollouts (`len` of a named tuple is its number of fields)."""
        return self.prompts.size

    @classmethod
    def of(cls, names: Sequence[DrawName]) -> Draws:
        """From the name of each."""
        return cls(*np.array(names, dtype=np.int64).reshape(-1, 3).T)

    def names(self) -> list[DrawName]:
        return list(zip(*(column.tolist() for column in self), strict=True))


class Outcomes(NamedTuple):
    """What came back for some draws, in their order.

    rewards  (N,) int8, each 1, 0 or MISSING
    tokens   (N,) int64 >= 0, generated whether scored or not
    """

    rewards: NDArray[np.int8]
    tokens: NDArray[np.int64]


class Ledger:
    """Counts of one step, one row for each opened prompt, in the order of opening (O rows, all arrays (O,)).

    prompts         int64, all different
    issued          int64, slots of its group handed out so far
    n, s            int64, rollouts scored, and those among them with reward 1
    missing         int64, draws that came back MISSING, redraws included
    tokens          int64, in the scored rollouts
    missing_tokens  int64, in the missing ones
    aborted         int64, draws that count for nothing because the prompt was decided without them: cut short, or
                    ended behind a slot that had not
    aborted_tokens  int64, in the aborted ones, as far as they got
    fate            int8, a `Fate`
    lots            float64 in [0, 1], drawn apart from its rollouts; decides whether it is audited if abandoned
    is_audited      bool, abandoned by the rule but run on to k, whatever its fate is now
    rounds, spent   rounds begun and rollouts drawn in the whole step, whatever they came to
    """

    _COUNTS = ("prompts", "issued", "n", "s", "missing", "tokens", "missing_tokens", "aborted", "aborted_tokens")
    _COLUMNS = dict.fromkeys(_COUNTS, np.int64) | {"fate": np.int8, "lots": np.float64, "is_audited": np.bool_}

    def __init__(self) -> None:
        for name, kind in self._COLUMNS.items():
            setattr(self, name, np.empty(0, dtype=kind))
        self.rounds = 0
        self.spent = 0

    def __len__(self) -> int:
        return self.prompts.size

    def open(self, prompts: NDArray[np.int64], lots: NDArray[np.float64] | None = None) -> None:
        """Add a row for each prompt, with nothing issued; without `lots` none of them is ever audited."""
        assert not np.isin(prompts, self.prompts).any(), "a prompt was opened twice in a step"
        given = {"prompts": prompts, "lots": np.ones(len(prompts)) if lots is None else lots}
        for name, kind in self._COLUMNS.items():
            new = given.get(name, np.zeros(len(prompts)))
            setattr(self, name, np.concatenate([getattr(self, name), np.asarray(new, dtype=kind)]))

    def issue(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hand out the next `counts[i]` slots of row i. Returns (rows, slots), both (N,), grouped by row."""
        rows = np.repeat(np.arange(len(self)), counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        slots = self.issued[rows] + np.arange(rows.size) - before
        self.issued = self.issued + counts
        return rows, slots

    def record(self, rows: NDArray[np.int64], outcomes: Outcomes) -> None:
        """Count the outcomes of draws of `rows` (N,); MISSING adds to `missing`, never to n."""
        is_scored = outcomes.rewards != MISSING
        self.n += self._count(rows[is_scored])
        self.s += self._count(rows[outcomes.rewards == 1])
        self.missing += self._count(rows[~is_scored])
        self.tokens += self._count(rows[is_scored], outcomes.tokens[is_scored])
        self.missing_tokens += self._count(rows[~is_scored], outcomes.tokens[~is_scored])

    def _count(self, rows: NDArray[np.int64], weights: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        return np.bincount(rows, weights, minlength=len(self)).astype(np.int64)

    def abort(self, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Count draws of `rows` (N,) that were given up after `tokens` (N,)."""
        self.aborted += self._count(rows)
        self.aborted_tokens += self._count(rows, tokens)

    def head(self, count: int) -> Ledger:
        """The first `count` rows; `rounds` and `spent` stay those of the whole step."""
        ledger = Ledger()
        for name in self._COLUMNS:
            setattr(ledger, name, getattr(self, name)[:count])
        ledger.rounds, ledger.spent = self.rounds, self.spent
        return ledger

    @property
    def all_tokens(self) -> NDArray[np.int64]:
        """(O,) int64: tokens generated for each row, whatever came of them."""
        return self.tokens + self.missing_tokens + self.aborted_tokens

    def settle(self, rows: NDArray[np.bool_], fate: Fate) -> None:
        """Give `rows` (O,) bool a fate. By arithmetic: assigning through an unpredictable mask is 20 times slower."""
        self.fate += rows * (np.int8(fate) - self.fate)

    def has_fate(self, *fates: Fate) -> NDArray[np.bool_]:
        """(O,) bool: rows whose fate is one of `fates`."""
        is_any = self.fate == fates[0]
        for fate in fates[1:]:
            is_any |= self.fate == fate
        return is_any

    @property
    def is_mixed(self) -> NDArray[np.bool_]:
        """(O,) bool: rows whose rewards are not all equal."""
        return (self.s > 0) & (self.s < self.n)

    @property
    def num_committed(self) -> int:
        return int(np.count_nonzero(self.fate == Fate.COMMITTED))

    @property
    def num_open(self) -> int:
        return int(np.count_nonzero(self.fate == Fate.OPEN))

    def state_dict(self) -> dict[str, Any]:
        columns = {name: getattr(self, name).copy() for name in self._COLUMNS}
        return columns | {"rounds": self.rounds, "spent": self.spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, kind in self._COLUMNS.items():
            setattr(self, name, np.array(state[name], dtype=kind))
        self.rounds, self.spent = int(state["rounds"]), int(state["spent"])
