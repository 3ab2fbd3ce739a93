"""Audited abandonment: what became of the abandoned prompts that were run on to k all the same.

Owns the estimate of how often abandonment is wrong. Which prompts are audited is drawn by lot, apart from their
rollouts, so the estimate is unbiased whatever the prior is. Nothing is forgotten: it is about the whole run.

It is looked at after every step, so its interval is a confidence sequence: at 95% it contains the rate at *all* steps
of a run together, where an interval made for one look would sooner or later raise a false alarm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from sara.allocation.ledger import Fate, Ledger

_CONFIDENCE = 0.95
_NEAR_0 = 1e-15  # where the search for an end of an interval begins


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
        """The estimates, with 95% confidence sequences; empty before the first audit is complete.

        false_abandon_rate  share of the abandoned prompts that would have been effective
        lost_share          share of the effective groups that were abandoned
        exceeds             1 if the lower end of the first is above `max_rate`, or of the second above
                            `max_lost_share`; with a rate no higher than promised that happens, at any step at
                            all, in at most 5% of runs
        """
        if not self.audited:
            return {}
        low, high = confidence_sequence(self.effective, self.audited)
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


def confidence_sequence(successes: int, trials: int, confidence: float = _CONFIDENCE) -> tuple[float, float]:
    """An interval for a binomial proportion that may be looked at after every trial (Robbins 1970, uniform mixture).

    The rates p at which P(successes | trials, p) > (1 - confidence) / (trials + 1). With 1 / (trials + 1) the chance
    of these successes when p is drawn uniformly, the ratio of the two is a martingale under the true p, so by Ville's
    inequality it ever reaches 1 / (1 - confidence) with a chance of at most 1 - confidence. Trials whose own rates
    vary, none above p, put the lower end above p no more often.
    """
    least = np.log((1 - confidence) / (trials + 1))

    def excess(rate: float) -> float:
        return float(binom.logpmf(successes, trials, rate)) - least

    share = successes / trials
    low = brentq(excess, _NEAR_0, share) if successes and excess(_NEAR_0) < 0 else 0.0
    high = brentq(excess, share, 1 - _NEAR_0) if successes < trials and excess(1 - _NEAR_0) < 0 else 1.0
    return low, high
