"""Collection in rounds: one decision for all open prompts, one batch of draws, until the step is over.

Owns the rounds, the redraws of missing rollouts and the surplus. All draws of a round start together, and the next
decision waits for the last of them; `sara.collection.stream` does without that barrier.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sara.allocation import MISSING, Allocator, Draws, Fate, Limits, Outcomes
from sara.collection.report import Collection
from sara.collection.step import Step, checked
from sara.seeds import prompt_priorities
from sara.selection import Selector


class RolloutSource(Protocol):
    """Whatever turns draws into rewards: an engine with a verifier, a table of rates, a log."""

    def draw(self, step: int, draws: Draws) -> Outcomes:
        """The outcome of each draw, in the same order."""


def collect(
    step: int,
    selector: Selector,
    allocator: Allocator,
    source: RolloutSource,
    limits: Limits,
    seed: int,
    max_redraws: int = 2,
) -> Collection:
    """Collect the groups of one step in rounds. `seed` is the run seed; see `Step` for the rest."""
    collection = StepCollection(step, selector, allocator, limits, seed, max_redraws)
    while (draws := collection.next_round()).size:
        collection.observe(source.draw(step, draws))
    return collection.finish()


class StepCollection(Step):
    """One step in rounds. Missing rollouts are drawn again inside their round; the next one waits for them."""

    def next_round(self) -> Draws:
        """What to draw now: a new round, or the redraws of the current one. Empty when the step is over.

        Asked again before `observe`, it gives the same draws.
        """
        if self._pending.size or self._outcome is not None:
            return self._pending
        counts = np.zeros(len(self.ledger), dtype=np.int64) if self._is_out_of_rounds else self._open_and_allocate()
        if counts.any():
            self._issue(counts)
        else:
            self._outcome = self._reason_to_stop()
        return self._pending

    def observe(self, outcomes: Outcomes) -> None:
        """Record what the pending draws gave; judge the prompts once none of them has to be drawn again."""
        assert self._pending.size, "observe() before next_round()"
        outcomes = checked(outcomes, self._pending.size)
        self.ledger.record(self._rows, outcomes)
        self._redraw(outcomes.rewards == MISSING)
        if not self._pending.size:
            self.allocator.judge(self.ledger)
            self._drop_surplus()

    def _num_pending(self) -> int:
        return self.next_round().size

    def _draws_state(self) -> list[NDArray[np.int64]]:
        return [self._rows, *self._pending]

    def _load_draws(self, state: Any) -> None:
        self._rows, *draws = (np.array(column, dtype=np.int64) for column in state)
        self._pending = Draws(*draws)

    def _set_up(self, *settings: Any) -> None:
        super()._set_up(*settings)
        self._rows = np.empty(0, dtype=np.int64)  # (N,) ledger row of each pending draw
        self._pending = Draws(self._rows, self._rows, self._rows)

    def _open_and_allocate(self) -> NDArray[np.int64]:
        self._open()
        return self.allocator.allocate(self.ledger, self.limits)

    def _issue(self, counts: NDArray[np.int64]) -> None:
        self._rows, slots = self.ledger.issue(counts)
        self._pending = Draws(self.ledger.prompts[self._rows], slots, np.zeros_like(slots))
        self.ledger.rounds += 1
        self.ledger.spent += self._rows.size

    def _redraw(self, is_missing: NDArray[np.bool_]) -> None:
        """Replace the pending draws by those to repeat; a prompt with no attempt left is UNSCORABLE."""
        has_no_attempt_left = is_missing & (self._pending.attempts >= self.max_redraws)
        self.ledger.fate[self._rows[has_no_attempt_left]] = Fate.UNSCORABLE
        again = np.flatnonzero(is_missing & (self.ledger.fate[self._rows] != Fate.UNSCORABLE))
        again = again[: self.limits.rollouts_left(self.ledger)]
        self._rows = self._rows[again]
        prompts, slots, attempts = (column[again] for column in self._pending)
        self._pending = Draws(prompts, slots, attempts + 1)
        self.ledger.spent += again.size

    def _drop_surplus(self) -> None:
        """Keep the target in a seeded order, groups that are complete before those still to be filled.

        Surplus of earlier rounds is ranked again: it is wanted if a group kept then has become UNSCORABLE since.
        """
        ledger, target = self.ledger, self.limits.target
        if target is None:
            return
        ledger.fate[ledger.fate == Fate.SURPLUS] = Fate.COMMITTED
        committed = np.flatnonzero(ledger.fate == Fate.COMMITTED)
        is_unfilled = self.allocator.outstanding(ledger)[committed] > 0
        priorities = prompt_priorities(self.seed, self.step, ledger.prompts[committed])
        best_first = committed[np.lexsort((priorities, is_unfilled))]
        ledger.fate[best_first[target:]] = Fate.SURPLUS
