"""The one collection loop: select, allocate, draw, judge, until a step has its groups.

Training, simulation and replay all run this loop; only the `RolloutSource` differs. Owns the rounds, the
redraws of missing rollouts, the surplus, and the counts of where every rollout went. Never logs or trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sara.allocation import MISSING, Allocator, Draws, Fate, Ledger, Limits, Outcomes
from sara.seeds import audit_lots, prompt_priorities
from sara.selection import Evidence, Selector

StepOutcome = Literal["target", "budget", "prompts", "rounds", "complete"]


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
    """Collect the groups of one step. `seed` is the run seed; see `StepCollection` for the rest."""
    collection = StepCollection(step, selector, allocator, limits, seed, max_redraws)
    while (draws := collection.next_round()).size:
        collection.observe(source.draw(step, draws))
    return collection.finish()


class StepCollection:
    """One step of collection that can be stopped after any call and resumed elsewhere.

    max_redraws  times a missing rollout is drawn again, inside its round and out of the same budget; a prompt
                 that then still lacks it is UNSCORABLE and never trained

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
    def resume(cls, state: Mapping[str, Any], selector: Selector, allocator: Allocator) -> StepCollection:
        """Go on from a `state_dict`, with a selector and an allocator built as the first ones were."""
        self = cls.__new__(cls)
        limits = Limits(**state["limits"])
        self._set_up(state["step"], selector, allocator, limits, state["seed"], state["max_redraws"])
        selector.load_state_dict(state["selector"])
        allocator.load_state_dict(state["allocator"])
        self.ledger.load_state_dict(state["ledger"])
        self._rows, *draws = (np.array(column, dtype=np.int64) for column in state["pending"])
        self._pending = Draws(*draws)
        self._is_pool_exhausted, self._outcome = state["is_pool_exhausted"], state["outcome"]
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
            "pending": [self._rows, *self._pending],
            "is_pool_exhausted": self._is_pool_exhausted,
            "outcome": self._outcome,
        }

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
        outcomes = _checked(outcomes, self._pending.size)
        self.ledger.record(self._rows, outcomes)
        self._redraw(outcomes.rewards == MISSING)
        if not self._pending.size:
            self.allocator.judge(self.ledger)
            self._drop_surplus()

    def finish(self) -> Collection:
        """Close the step, once: selector and allocator learn from it. Raises ValueError while draws remain."""
        assert not self._is_finished, "finish() was called twice"
        if self.next_round().size:
            raise ValueError(f"step {self.step} is not over: {self._pending.size} draws are pending")
        self._is_finished = True
        ledger = self.ledger
        is_cut_short = (ledger.fate == Fate.AUDITED) & (ledger.n < self.allocator.k)
        ledger.fate[is_cut_short | (ledger.fate == Fate.OPEN)] = Fate.UNFINISHED
        beliefs = self.allocator.end_step(ledger)
        self.selector.end_step(Evidence(ledger.prompts, ledger.n, ledger.s, self.allocator.chances(ledger)))
        trained = ledger.prompts[ledger.fate == Fate.COMMITTED]
        in_order = np.argsort(prompt_priorities(self.seed, self.step, trained))
        return Collection(self.step, self.allocator.k, trained[in_order], ledger, self._outcome, beliefs)

    def _set_up(
        self, step: int, selector: Selector, allocator: Allocator, limits: Limits, seed: int, max_redraws: int
    ) -> None:
        if max_redraws < 0:
            raise ValueError(f"max_redraws = {max_redraws}; expected 0 or more")
        self.step, self.seed, self.limits, self.max_redraws = int(step), int(seed), limits, int(max_redraws)
        self.selector, self.allocator = selector, allocator
        self.ledger = Ledger()
        self._rows = np.empty(0, dtype=np.int64)  # (N,) ledger row of each pending draw
        self._pending = Draws(self._rows, self._rows, self._rows)
        self._is_pool_exhausted = self._is_finished = False
        self._outcome: StepOutcome | None = None

    def _open_and_allocate(self) -> NDArray[np.int64]:
        wanted = self.allocator.num_to_open(self.ledger, self.limits)
        if wanted:
            fresh = self.selector.select(wanted)
            self._is_pool_exhausted = fresh.size < wanted
            self.ledger.open(fresh, audit_lots(self.seed, self.step, fresh))
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


@dataclass(frozen=True)
class Collection:
    """What a finished step collected.

    k        group size
    trained  (G,) int64, prompts whose groups are trained on, in a seeded order
    ledger   counts of every opened prompt
    outcome  what ended the step: target, budget, prompts (pool exhausted), rounds, or complete (nothing more
             was asked for)
    beliefs  what the allocator decided by and learned, under metric names
    """

    step: int
    k: int
    trained: NDArray[np.int64]
    ledger: Ledger
    outcome: StepOutcome
    beliefs: dict[str, float] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return self.ledger.rounds

    def metrics(self) -> dict[str, float]:
        """Where rollouts, tokens and groups went. The seven fates of rollouts add up to those generated."""
        ledger, fates = self.ledger, self._rollout_fates()
        values = {
            "rollouts/generated": ledger.spent,
            "tokens/generated": (ledger.tokens + ledger.missing_tokens).sum(),
        }
        is_trained = ledger.fate == Fate.COMMITTED
        values |= {
            "rollouts/trained": ledger.n[is_trained].sum(),
            "tokens/trained": ledger.tokens[is_trained].sum(),
        }
        for fate, rows in fates.items():
            values |= {f"rollouts/{fate}": ledger.n[rows].sum(), f"tokens/{fate}": ledger.tokens[rows].sum()}
        values |= {"rollouts/missing": ledger.missing.sum(), "tokens/missing": ledger.missing_tokens.sum()}
        values |= self._group_counts()
        values |= {"rounds": ledger.rounds} | self.beliefs
        return {name: float(value) for name, value in values.items()}

    def _rollout_fates(self) -> dict[str, NDArray[np.bool_]]:
        ledger = self.ledger
        is_trained = ledger.fate == Fate.COMMITTED
        is_abandoned = ledger.has_fate(Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS)
        return {
            "effective": is_trained & ledger.is_mixed,
            "abandoned": is_abandoned & (ledger.n < self.k),
            "saturated": (is_abandoned & (ledger.n == self.k)) | (is_trained & ~ledger.is_mixed),
            "audited": ledger.fate == Fate.AUDITED,
            "surplus": ledger.fate == Fate.SURPLUS,
            "unfinished": ledger.has_fate(Fate.OPEN, Fate.UNFINISHED, Fate.UNSCORABLE),
        }

    def _group_counts(self) -> dict[str, float]:
        ledger = self.ledger
        count = {fate: int(np.count_nonzero(ledger.fate == fate)) for fate in Fate}
        is_trained = ledger.fate == Fate.COMMITTED
        trained, effective = count[Fate.COMMITTED], np.count_nonzero(is_trained & ledger.is_mixed)
        committed = trained + count[Fate.SURPLUS]
        resolved = committed + count[Fate.ABANDONED_FAIL] + count[Fate.ABANDONED_PASS] + count[Fate.AUDITED]
        is_complete_audit = ledger.is_audited & ledger.has_fate(Fate.AUDITED, Fate.COMMITTED, Fate.SURPLUS)
        return {
            "groups/opened": len(ledger),
            "groups/committed": committed,
            "groups/trained": trained,
            "groups/effective": effective,
            "groups/abandoned_fail": count[Fate.ABANDONED_FAIL],
            "groups/abandoned_pass": count[Fate.ABANDONED_PASS],
            "groups/audited": count[Fate.AUDITED],
            "groups/surplus": count[Fate.SURPLUS],
            "groups/unfinished": count[Fate.UNFINISHED],
            "groups/unscorable": count[Fate.UNSCORABLE],
            "groups/short": np.count_nonzero(is_trained & (ledger.n < self.k)),
            "audit/groups": np.count_nonzero(is_complete_audit),
            "audit/effective": np.count_nonzero(is_complete_audit & ledger.is_mixed),
            "effective_share": effective / trained if trained else 0.0,
            "commit_rate": committed / resolved if resolved else 0.0,
        }


def _checked(outcomes: Outcomes, count: int) -> Outcomes:
    rewards, tokens = np.asarray(outcomes.rewards), np.asarray(outcomes.tokens)
    if rewards.shape != (count,) or tokens.shape != (count,):
        raise ValueError(f"outcomes of shapes {rewards.shape} and {tokens.shape}; expected ({count},), one a draw")
    is_known = (rewards == 1) | (rewards == 0) | (rewards == MISSING)
    if not is_known.all():
        raise ValueError(f"reward {rewards[~is_known][0]}; expected 1, 0 or {MISSING} for missing")
    if (tokens < 0).any():
        raise ValueError(f"{tokens.min()} tokens; expected 0 or more")
    return Outcomes(rewards.astype(np.int8), tokens.astype(np.int64))
