"""What a finished step collected, and the counts of where every rollout went. Never decides or draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Fate, Ledger

StepOutcome = Literal["target", "budget", "prompts", "rounds", "complete"]


@dataclass(frozen=True)
class Collection:
    """What a finished step collected.

    k        group size
    trained  (G,) int64, prompts whose groups are trained on, in a seeded order
    ledger   counts of every opened prompt
    num_considered  prompts, in the order of opening, that the step is about: all of them in rounds; in a stream those
             before which the step was not complete, while it had reached for more
    outcome  what ended the step: target, budget, prompts (pool exhausted), rounds, or complete (nothing more
             was asked for)
    beliefs  what the allocator decided by and learned, under metric names
    """

    step: int
    k: int
    trained: NDArray[np.int64]
    ledger: Ledger
    num_considered: int
    outcome: StepOutcome
    beliefs: dict[str, float] = field(default_factory=dict)

    @property
    def considered(self) -> Ledger:
        """The part of the ledger that may be learned from: what else a stream has reached for favours short answers."""
        return self.ledger.head(self.num_considered)

    @property
    def rounds(self) -> int:
        return self.ledger.rounds

    def metrics(self) -> dict[str, float]:
        """Where rollouts, tokens and groups went. The eight fates of rollouts add up to those generated."""
        ledger, fates = self.ledger, self._rollout_fates()
        values = {
            "rollouts/generated": ledger.spent,
            "tokens/generated": ledger.all_tokens.sum(),
        }
        is_trained = ledger.fate == Fate.COMMITTED
        values |= {
            "rollouts/trained": ledger.n[is_trained].sum(),
            "tokens/trained": ledger.tokens[is_trained].sum(),
        }
        for fate, rows in fates.items():
            values |= {f"rollouts/{fate}": ledger.n[rows].sum(), f"tokens/{fate}": ledger.tokens[rows].sum()}
        values |= {"rollouts/aborted": ledger.aborted.sum(), "tokens/aborted": ledger.aborted_tokens.sum()}
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
