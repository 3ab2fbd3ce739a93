"""Audited abandonment: what became of the abandoned prompts that were run on to k all the same.

Owns the estimate of how often abandonment is wrong. Which prompts are audited is drawn by lot, apart from their
rollouts, so the estimate is unbiased whatever the prior is. Nothing is forgotten: it is about the whole run.
"""

from __future__ import annotations

from typing import Any

from scipy.stats import beta

from sara.allocation.ledger import Fate, Ledger

_CONFIDENCE = 0.95


class AuditTally:
    """Counts since the run began.

    audited, effective    audits that reached k, and those of them that turned out mixed
    abandoned, committed  prompts abandoned before k, audited ones included, and groups found effective without one
    """

    _FIELDS = ("audited", "effective", "abandoned", "committed")

    def __init__(self) -> None:
        self.audited = self.effective = self.abandoned = self.committed = 0

    def record(self, ledger: Ledger, k: int) -> None:
        """Count one finished step."""
        is_complete = ledger.is_audited & (ledger.n == k) & (ledger.fate != Fate.UNSCORABLE)
        is_abandoned = ledger.has_fate(Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS) & (ledger.n < k)
        is_committed = ledger.has_fate(Fate.COMMITTED, Fate.SURPLUS) & ~ledger.is_audited
        self.audited += int(is_complete.sum())
        self.effective += int((is_complete & ledger.is_mixed).sum())
        self.abandoned += int((is_abandoned | is_complete).sum())
        self.committed += int((is_committed & ledger.is_mixed).sum())

    def metrics(self, max_rate: float | None, max_lost_share: float | None) -> dict[str, float]:
        """The estimates, with 95% Clopper-Pearson intervals; empty before the first audit is complete.

        false_abandon_rate  share of the abandoned prompts that would have been effective
        lost_share          share of the effective groups that were abandoned
        exceeds             1 if the lower end of the first is above `max_rate`, or of the second above
                            `max_lost_share`
        """
        if not self.audited:
            return {}
        low, high = clopper_pearson(self.effective, self.audited)
        rates = {"": self.effective / self.audited, "_low": low, "_high": high}
        values = {f"audit/false_abandon_rate{end}": rate for end, rate in rates.items()}
        values |= {f"audit/lost_share{end}": self._lost_share(rate) for end, rate in rates.items()}
        is_wrong = max_rate is not None and low > max_rate
        is_wrong |= max_lost_share is not None and self._lost_share(low) > max_lost_share
        return values | {"audit/exceeds": float(is_wrong), "audit/cumulative": float(self.audited)}

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._FIELDS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self._FIELDS:
            setattr(self, name, int(state[name]))

    def _lost_share(self, rate: float) -> float:
        lost = rate * self.abandoned
        return lost / (lost + self.committed) if lost else 0.0


def clopper_pearson(successes: int, trials: int, confidence: float = _CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a binomial proportion (Clopper and Pearson 1934); never covers less than it says."""
    tail = (1 - confidence) / 2
    low = beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)
