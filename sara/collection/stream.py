"""Collection in a stream: a decision whenever a rollout ends, and its place filled at once.

Nothing waits for the last rollout of a round. Short answers end first and are right more often, so the order in
which rollouts end may decide nothing:

* A prompt is judged on the longest prefix of its slots that has ended, slot by slot, never on what ended first.
* Prompts have the precedence in which they were opened. The step keeps the first groups of that order that commit,
  and is over when no prompt before the last of them is undecided. Prompts opened further ahead are left.
* Selector and allocator learn from the prompts up to there alone; those further ahead go back to the selector.

So what is trained on and what is learned follow from the rewards and the order of opening, as if one prompt had
been drawn after the other, one rollout at a time. The order of ending decides how far ahead a step has reached by then,
that is, what it costs (and, where the budget runs out, how many prompts it can afford).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sara.allocation import MISSING, Allocator, Draws, Fate, Limits, Outcomes
from sara.collection.report import Collection
from sara.collection.slots import Slots, SlotState
from sara.collection.step import Step, checked
from sara.selection import Selector


class StreamSource(Protocol):
    """Whatever draws rollouts one beside the other. A draw is named by its prompt, slot and attempt."""

    @property
    def num_free(self) -> int:
        """Rollouts that could start now."""

    def start(self, step: int, draws: Draws) -> None:
        """Start drawing; at most `num_free`."""

    def advance(self) -> tuple[Draws, Outcomes]:
        """Go on for a little; what has ended since the last call, in any order, often nothing."""

    def abort(self, draws: Draws) -> NDArray[np.int64]:
        """Forget draws, whether under way or ended: `advance` never returns them any more, nobody trains on them.

        returns  (N,) int64, tokens generated for each so far
        """


def collect_streaming(
    step: int,
    selector: Selector,
    allocator: Allocator,
    source: StreamSource,
    limits: Limits,
    seed: int,
    max_redraws: int = 2,
) -> Collection:
    """Collect the groups of one step in a stream. `seed` is the run seed; see `Step` for the rest."""
    collection = StreamCollection(step, selector, allocator, limits, seed, max_redraws)
    while not collection.is_over:
        draws = collection.next_draws(source.num_free)
        if draws.size:
            source.start(step, draws)
        ended, outcomes = source.advance()
        if ended.size:
            unwanted = collection.observe(ended, outcomes)
            collection.count_aborted(unwanted, source.abort(unwanted))
    return collection.finish()


class StreamCollection(Step):
    """One step in a stream. `limits.max_rounds` means nothing here: there are no rounds.

    A prompt is abandoned at any rollout from the end of its first grant on, and committed at any rollout at all; it is
    granted more once all it was granted has been read. What is under way when the state is saved is drawn again.
    """

    @property
    def is_over(self) -> bool:
        """Whether nothing is under way and nothing is wanted any more."""
        return not self._num_running and not self._num_pending()

    def next_draws(self, places: int) -> Draws:
        """What to start now, at most `places` draws; the prompts opened first come first."""
        self._decide()
        if not places or not self._slots.is_any_waiting:
            return Draws.of([])
        rows, slots = self._slots.start(self._is_wanted, places)
        self._num_running += rows.size
        return self._named(rows, slots)

    def observe(self, ended: Draws, outcomes: Outcomes) -> Draws:
        """Record what draws that were under way gave. Returns those to abort now, under way or ended.

        Raises ValueError on a draw that was not under way.
        """
        outcomes = checked(outcomes, ended.size)
        if not ended.size:
            return ended
        rows = self._rows_under_way(ended)
        self._num_running -= rows.size
        self._record(rows, ended.slots, outcomes)
        self._read()
        self._is_due = True
        return self._give_up()

    def count_aborted(self, draws: Draws, tokens: NDArray[np.int64]) -> None:
        """Count the tokens (N,) that had been generated for draws which `observe` gave up."""
        self.ledger.abort(self._rows_of(draws), np.asarray(tokens, dtype=np.int64))
        self._num_uncounted -= draws.size

    def _set_up(self, step: int, selector: Selector, allocator: Allocator, limits: Limits, *settings: Any) -> None:
        super()._set_up(step, selector, allocator, replace(limits, max_rounds=None), *settings)
        self._slots = Slots(allocator.k)
        self._row_of: dict[int, int] = {}
        self._is_due = True  # something has ended since the allocator was last asked
        self._num_running = self._num_uncounted = 0

    def _draws_state(self) -> dict[str, Any]:
        return {"slots": self._slots.state_dict(), "is_due": self._is_due}

    def _load_draws(self, state: dict[str, Any]) -> None:
        self._slots.load_state_dict(state["slots"])
        self._is_due = state["is_due"]
        self._row_of = {prompt: row for row, prompt in enumerate(self.ledger.prompts.tolist())}

    def _num_pending(self) -> int:
        self._decide()
        if self._outcome is not None:
            return 0
        pending = self._num_running + self._slots.find(SlotState.WAITING, self._is_wanted)[0].size
        if not pending:
            self._outcome = self._reason_to_stop()
        return pending

    # ---------------------------------------------------------------------------------------------- who goes on

    @property
    def _is_going_on(self) -> NDArray[np.bool_]:
        """(O,) bool: prompts whose next rollout may still change something."""
        fills = [Fate.COMMITTED] if self.allocator.fills_committed else []
        return self.ledger.has_fate(Fate.OPEN, Fate.AUDITED, *fills)

    @property
    def _is_needed(self) -> NDArray[np.bool_]:
        """(O,) bool: prompts before which fewer groups than the target have committed, in the order of opening."""
        is_committed = self.ledger.fate == Fate.COMMITTED
        if self.limits.target is None:
            return np.ones(len(self.ledger), dtype=bool)
        return np.cumsum(is_committed) - is_committed < self.limits.target

    @property
    def _is_wanted(self) -> NDArray[np.bool_]:
        return self._is_going_on & self._is_needed

    @property
    def _is_out_of_rounds(self) -> bool:
        return False

    # ------------------------------------------------------------------------------------------------- deciding

    def _decide(self) -> None:
        """Open prompts and grant rollouts, if something has ended since this was last done."""
        if not self._is_due or self._outcome is not None:
            return
        self._is_due = False
        self._take_up_again()
        self._open()
        ledger = self.ledger
        self._slots.extend(len(ledger))
        self._row_of |= {int(ledger.prompts[row]): row for row in range(len(self._row_of), len(ledger))}
        # Who is wanted beyond the target is decided here, by precedence; so no target is met as the allocator sees it.
        counts = self.allocator.allocate(ledger, replace(self.limits, target=len(ledger) + 1))
        is_ready = (ledger.fate != Fate.OPEN) | (self._slots.read == ledger.issued)
        counts = counts * (is_ready & self._is_needed)
        if counts.any():
            rows, slots = ledger.issue(counts)
            self._slots.grant(rows, slots)
            ledger.spent += rows.size
            ledger.rounds += 1

    def _take_up_again(self) -> None:
        """Draw again what was given up of prompts that turn out to be needed: a group kept before is UNSCORABLE."""
        rows, slots = self._slots.find(SlotState.GIVEN_UP, self._is_wanted)
        self._draw_again(rows, slots)

    def _draw_again(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Let draws wait for a place once more, as far as the budget goes; the rest is skipped."""
        num_paid = len(rows[: self.limits.rollouts_left(self.ledger)])
        self._slots.states[rows[:num_paid], slots[:num_paid]] = SlotState.WAITING
        self._slots.states[rows[num_paid:], slots[num_paid:]] = SlotState.SKIPPED
        self.ledger.spent += num_paid

    # -------------------------------------------------------------------------------------------------- reading

    def _record(self, rows: NDArray[np.int64], slots: NDArray[np.int64], outcomes: Outcomes) -> None:
        """Note what ended; draw again what is missing and has an attempt left."""
        table = self._slots
        table.states[rows, slots] = SlotState.ENDED
        table.rewards[rows, slots], table.tokens[rows, slots] = outcomes
        is_missing = outcomes.rewards == MISSING
        self.ledger.record(rows[is_missing], Outcomes(*(column[is_missing] for column in outcomes)))
        again = is_missing & (table.attempts[rows, slots] < self.max_redraws)
        table.attempts[rows[again], slots[again]] += 1
        self._draw_again(rows[again], slots[again])

    def _read(self) -> None:
        """Count what has ended, of every prompt the next slot at a time, and judge after each."""
        table, ledger = self._slots, self.ledger
        while (rows := table.readable(self._is_going_on)).size:
            where = rows, table.read[rows]
            has_ended = table.states[where] == SlotState.ENDED
            rewards, tokens = table.rewards[where], table.tokens[where]
            is_lost = has_ended & (rewards == MISSING)
            is_scored = has_ended & ~is_lost
            ledger.record(rows[is_scored], Outcomes(rewards[is_scored], tokens[is_scored]))
            ledger.fate[rows[is_lost]] = Fate.UNSCORABLE
            table.read[rows] += 1
            self._judge()

    def _judge(self) -> None:
        """Judge all that is open, but abandon nobody before the whole of the first grant has been read."""
        ledger = self.ledger
        is_early = (ledger.fate == Fate.OPEN) & (self._slots.read < self._slots.first) & ~ledger.is_mixed
        ledger.settle(is_early, Fate.UNFINISHED)
        self.allocator.judge(ledger)
        ledger.settle(is_early, Fate.OPEN)

    def _give_up(self) -> Draws:
        """Give up what no decision needs: all that is unread of decided prompts, and what runs of the unneeded."""
        is_decided = ~self._is_going_on
        self._refund(is_decided)
        unread, running = self._slots.find_unread(is_decided), self._slots.find(SlotState.RUNNING, ~self._is_wanted)
        rows, slots = (np.concatenate(columns) for columns in zip(unread, running, strict=True))
        self._slots.states[rows, slots] = SlotState.GIVEN_UP
        self._num_running -= running[0].size
        self._num_uncounted += rows.size
        return self._named(rows, slots)

    def _refund(self, rows: NDArray[np.bool_]) -> None:
        """Give up what was granted to `rows` (O,) bool and never started."""
        waiting = self._slots.find(SlotState.WAITING, rows)
        self._slots.states[waiting] = SlotState.GIVEN_UP
        self.ledger.spent -= waiting[0].size

    # ------------------------------------------------------------------------------------------------- the end

    def _close(self) -> int:
        assert not self._num_uncounted, f"{self._num_uncounted} aborted draws were not counted"
        ledger, is_unneeded = self.ledger, ~self._is_needed
        self._refund(is_unneeded)
        unread = self._slots.find_unread(is_unneeded)
        ledger.abort(unread[0], self._slots.tokens[unread])
        ledger.settle(is_unneeded & (ledger.fate == Fate.COMMITTED), Fate.SURPLUS)
        count = super()._close()
        if self.limits.is_reached_by(ledger):
            count = int(np.flatnonzero(ledger.fate == Fate.COMMITTED)[-1]) + 1
            self.selector.give_back(len(ledger) - count)
        return count

    # -------------------------------------------------------------------------------------------- names of draws

    def _named(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> Draws:
        return Draws(self.ledger.prompts[rows], slots, self._slots.attempts[rows, slots])

    def _rows_of(self, draws: Draws) -> NDArray[np.int64]:
        return np.array([self._row_of[prompt] for prompt in draws.prompts.tolist()], dtype=np.int64)

    def _rows_under_way(self, draws: Draws) -> NDArray[np.int64]:
        """The ledger rows of `draws`; ValueError unless all of them are under way, each named once."""
        table, names = self._slots, draws.names()
        for prompt, slot, attempt in names:
            where = self._row_of.get(prompt, -1), slot
            is_known = where[0] >= 0 and 0 <= slot < table.k and table.states[where] == SlotState.RUNNING
            if not is_known or table.attempts[where] != attempt:
                raise ValueError(f"prompt {prompt}, slot {slot}, attempt {attempt}; expected a draw under way")
        if len(set(names)) < len(names):
            raise ValueError("a draw ended twice at once; expected each at most once")
        return self._rows_of(draws)
