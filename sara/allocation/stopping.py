"""Where SARA stops: the boundaries in force, by DESIGN's threshold or learned, and the prior behind them.

Owns what a sequential allocator believes of fresh prompts and of saturated prefixes, and its learning from one
step to the next. Never reads a fate, never opens a prompt.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sara.allocation.beliefs import saturated_tables
from sara.allocation.boundaries import Boundaries, Objective, appraise, best_boundaries
from sara.allocation.evidence import gather
from sara.allocation.ledger import Ledger
from sara.allocation.moments import RateMoments, beta_moments
from sara.allocation.outcome_table import OutcomeTable
from sara.allocation.rate_prior import RatePrior

Cost = Literal["rollouts", "tokens"]

AUTO = "auto"


class StoppingRule:
    """When a saturated prompt is abandoned, and what is expected of one that is not.

    tau_low           a number: abandon when p_eff < tau_low under Beta(alpha0, beta0), always; "auto": the
                      boundaries that are best for `objective` under the learned prior
    probe, increment  the pace; "auto": chosen with the boundaries, or, with a threshold, so that the first and the
                      second look are where it first abandons
    cost              what `objective` divides by: "rollouts", or "tokens" by the learned mean lengths
    learn_prior       learn the prior over success rates from every outcome; until something was seen, and always
                      if False, it is Beta(alpha0, beta0)
    memory            share of the counts behind the prior that is kept from one step to the next

    boundaries       in force in the current step
    chances          (2, k+1) float64, p_eff of the all-fail and all-pass prefixes of each n
    commit_chances   (2, k+1) float64, the chance that they are mixed before they are abandoned
    """

    def __init__(
        self,
        k: int,
        tau_low: float | Literal["auto"],
        probe: int | Literal["auto"],
        increment: int | Literal["auto"],
        alpha0: float,
        beta0: float,
        objective: Objective,
        cost: Cost,
        learn_prior: bool,
        memory: float,
    ) -> None:
        self.k, self.tau_low, self.objective, self.cost = k, tau_low, objective, cost
        self._pace = tuple(None if pace == AUTO else int(pace) for pace in (probe, increment))
        self._start = alpha0, beta0
        self._learns = learn_prior
        self._table = OutcomeTable(k, memory)
        self._prior = RatePrior(k, alpha0, beta0)
        self._decide()
        if tau_low != AUTO:
            self._warn_if_pointless()

    @property
    def is_auto(self) -> bool:
        return self.tau_low == AUTO

    def is_hopeless(self, n: NDArray[np.int64], s: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(O,) bool: saturated prefixes to abandon; of mixed ones it says nothing."""
        all_fail, all_pass = self.boundaries.all_fail, self.boundaries.all_pass
        return ((s == 0) & (n >= all_fail)) | ((s > 0) & (n >= all_pass))

    def learn(self, ledger: Ledger) -> None:
        """Take in a finished step and decide anew."""
        if self._learns:
            self._table.record(ledger.n, ledger.s, ledger.tokens)
            self._prior.fit(self._table.cells)
            self._decide()

    def metrics(self) -> dict[str, float]:
        """The boundaries in force, where they take effect, and what the prior expects of them and of prompts."""
        moments, at_looks = self._moments(), self.boundaries.at_looks(self.k)
        appraisal = appraise(at_looks, moments, self.objective)
        values = {f"boundary/{name}": float(value) for name, value in at_looks._asdict().items()}
        return values | {
            "boundary/lost_share": appraisal.lost_share,
            "prior/all_fail": float(moments.all_fail[self.k]),
            "prior/effective": moments.effective,
            "prior/all_pass": float(moments.all_pass[self.k]),
        }

    def state_dict(self) -> dict[str, Any]:
        state = {"boundaries": tuple(self.boundaries)}
        return state | {"table": self._table.state_dict(), "prior": self._prior.state_dict()} if self._learns else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._learns:
            self._table.load_state_dict(state["table"])
            self._prior.load_state_dict(state["prior"])
        self._put_in_force(self._moments(), Boundaries(*(int(value) for value in state["boundaries"])))

    @property
    def _has_learned(self) -> bool:
        return self._table.cells.n.size > 0

    def _moments(self) -> RateMoments:
        return self._prior.moments() if self._has_learned else beta_moments(self.k, *self._start)

    def _decide(self) -> None:
        moments = self._moments()
        if self.is_auto:
            lengths = self._table.mean_tokens() if self.cost == "tokens" else (1.0, 1.0)
            evidence = gather(self._table, self._prior.chances()) if self._has_learned else None
            self._put_in_force(moments, best_boundaries(moments, self.objective, *self._pace, lengths, evidence))
        else:
            self._put_in_force(moments, self._at_threshold())

    def _put_in_force(self, moments: RateMoments, boundaries: Boundaries) -> None:
        self.boundaries = boundaries
        exact = saturated_tables(self.k, *self._start)
        self.chances = np.stack(moments.chance_tables() if self._has_learned else exact)
        at_looks = boundaries.at_looks(self.k)
        self.commit_chances = np.stack(moments.commit_tables(at_looks.all_fail, at_looks.all_pass))

    def _at_threshold(self) -> Boundaries:
        """After how many equal outcomes p_eff is below tau_low; it falls in n, to 0 at k."""
        first = []
        for table in saturated_tables(self.k, *self._start):
            is_below = table[1:] < self.tau_low
            first.append(1 + int(np.argmax(is_below)) if is_below.any() else self.k)
        probe, increment = self._pace
        if probe is None:  # one rollout cannot be mixed: abandoning all after it would train on nothing
            probe = min(first) if max(first) > 1 else 2
        if increment is None:
            increment = min([boundary for boundary in first if boundary > probe], default=self.k) - probe
        return Boundaries(*first, probe, max(increment, 1))

    def _warn_if_pointless(self) -> None:
        """A threshold so low that nothing is abandoned before k, or so high that nothing is ever trained on."""
        at_looks = self.boundaries.at_looks(self.k)
        first, last = min(at_looks[:2]), max(at_looks[:2])
        if first == self.k and self.tau_low > 0:
            looks = np.arange(at_looks.probe, self.k, at_looks.increment)
            fix = f"expected probe below k = {self.k}"
            if looks.size:
                least = min(table[looks].min() for table in saturated_tables(self.k, *self._start))
                fix = f"it saves rollouts from above {least:.4g} with this probe and increment"
            self._warn(f"abandons nothing before k = {self.k}; {fix}")
        elif last == 1:
            self._warn("abandons every prompt after its first rollout; expected a lower one, or probe above 1")

    def _warn(self, what: str) -> None:
        warnings.warn(f"allocator.tau_low = {self.tau_low} {what}", UserWarning, stacklevel=5)
