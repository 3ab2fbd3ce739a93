"""A step of collection, under whatever schedule: it opens prompts, and learns from them when it ends.

Owns the ledger, why the step ended and what selector and allocator are told. Never draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np

from sara.allocation import MISSING, Allocator, Fate, Ledger, Limits, Outcomes
from sara.collection.report import Collection, StepOutcome
from sara.seeds import audit_lots, prompt_priorities
from sara.selection import Evidence, Selector


class Step(ABC):
    """One step of collection that can be stopped after any call and resumed elsewhere.

    max_redraws  times a missing rollout is drawn again, out of the same budget; a prompt that then still lacks it
                 is UNSCORABLE and never trained

    When redraws have used up the budget, groups are judged, and trained, on the rollouts they have.
    """

    def __init__(
        self,
        step: int,
        selector: Selector,
        allocator: Allocator,
        limits: Limits,
        seed: int,
        max_redraws: int = 2,
    ) -> None:
        self._set_up(step, selector, allocator, limits, seed, max_redraws)
        selector.begin_step(step, limits.opens_at_least(allocator.k))

    @classmethod
    def resume(cls, state: Mapping[str, Any], selector: Selector, allocator: Allocator) -> Self:
        """Go on from a `state_dict`, with a selector and an allocator built as the first ones were."""
        self = cls.__new__(cls)
        limits = Limits(**state["limits"])
        self._set_up(state["step"], selector, allocator, limits, state["seed"], state["max_redraws"])
        selector.load_state_dict(state["selector"])
        allocator.load_state_dict(state["allocator"])
        self.ledger.load_state_dict(state["ledger"])
        self._is_pool_exhausted, self._outcome = state["is_pool_exhausted"], state["outcome"]
        self._load_draws(state["draws"])
        return self

    def state_dict(self) -> dict[str, Any]:
        """Everything `resume` needs, the selector and the allocator included."""
        return {
            "step": self.step,
            "seed": self.seed,
            "max_redraws": self.max_redraws,
            "limits": asdict(self.limits),
            "selector": self.selector.state_dict(),
            "allocator": self.allocator.state_dict(),
            "ledger": self.ledger.state_dict(),
            "draws": self._draws_state(),
            "is_pool_exhausted": self._is_pool_exhausted,
            "outcome": self._outcome,
        }

    def finish(self) -> Collection:
        """Close the step, once: selector and allocator learn from it. Raises ValueError while draws remain."""
        assert not self._is_finished, "finish() was called twice"
        if pending := self._num_pending():
            raise ValueError(f"step {self.step} is not over: {pending} draws are pending")
        self._is_finished = True
        num_considered = self._close()
        considered = self.ledger.head(num_considered)
        beliefs = self.allocator.end_step(considered)
        chances = self.allocator.chances(considered)
        self.selector.end_step(Evidence(considered.prompts, considered.n, considered.s, chances))
        trained = self.ledger.prompts[self.ledger.fate == Fate.COMMITTED]
        trained = trained[np.argsort(prompt_priorities(self.seed, self.step, trained))]
        return Collection(self.step, self.allocator.k, trained, self.ledger, num_considered, self._outcome, beliefs)

    @abstractmethod
    def _num_pending(self) -> int:
        """Draws that keep the step from being over; none once `_outcome` says what ended it."""

    @abstractmethod
    def _draws_state(self) -> Any:
        """The draws under way, for `_load_draws`."""

    @abstractmethod
    def _load_draws(self, state: Any) -> None: ...

    def _close(self) -> int:
        """Give every prompt its last fate. Returns how many of the first selector and allocator learn from."""
        ledger = self.ledger
        is_cut_short = (ledger.fate == Fate.AUDITED) & (ledger.n < self.allocator.k)
        ledger.fate[is_cut_short | (ledger.fate == Fate.OPEN)] = Fate.UNFINISHED
        return len(ledger)

    def _set_up(
        self, step: int, selector: Selector, allocator: Allocator, limits: Limits, seed: int, max_redraws: int
    ) -> None:
        if max_redraws < 0:
            raise ValueError(f"max_redraws = {max_redraws}; expected 0 or more")
        self.step, self.seed, self.limits, self.max_redraws = int(step), int(seed), limits, int(max_redraws)
        self.selector, self.allocator = selector, allocator
        self.ledger = Ledger()
        self._is_pool_exhausted = self._is_finished = False
        self._outcome: StepOutcome | None = None

    def _open(self) -> None:
        """Open as many prompts as the allocator wants now and the pool has."""
        wanted = self.allocator.num_to_open(self.ledger, self.limits)
        if wanted:
            fresh = self.selector.select(wanted)
            self._is_pool_exhausted = fresh.size < wanted
            self.ledger.open(fresh, audit_lots(self.seed, self.step, fresh))

    @property
    def _is_out_of_rounds(self) -> bool:
        caps = [cap for cap in (self.limits.max_rounds, self.allocator.max_rounds) if cap is not None]
        return bool(caps) and self.ledger.rounds >= min(caps)

    def _reason_to_stop(self) -> StepOutcome:
        if self.limits.is_reached_by(self.ledger):
            return "target"
        if self._is_out_of_rounds:
            return "rounds"
        if self._is_pool_exhausted:
            return "prompts"
        return "budget" if self.allocator.num_affordable(self.ledger, self.limits) == 0 else "complete"


def checked(outcomes: Outcomes, count: int) -> Outcomes:
    """The outcomes of `count` draws, as arrays of their types; ValueError on what makes no sense."""
    rewards, tokens = np.asarray(outcomes.rewards), np.asarray(outcomes.tokens)
    if rewards.shape != (count,) or tokens.shape != (count,):
        raise ValueError(f"outcomes of shapes {rewards.shape} and {tokens.shape}; expected ({count},), one a draw")
    is_known = (rewards == 1) | (rewards == 0) | (rewards == MISSING)
    if not is_known.all():
        raise ValueError(f"reward {rewards[~is_known][0]}; expected 1, 0 or {MISSING} for missing")
    if (tokens < 0).any():
        raise ValueError(f"{tokens.min()} tokens; expected 0 or more")
    return Outcomes(rewards.astype(np.int8), tokens.astype(np.int64))
