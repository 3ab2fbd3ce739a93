"""Which settings of SARA a pool calls for, by exact costs: abandon where, and look how often?

Owns the search over stopping boundaries. Costs are closed forms without the overshoot of batches, and are compared in
the unit of `allocation.cost`; no setting may lose more than `allocation.max_false_abandon` of the effective groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sara.allocation import prob_effective
from sara.config import AUTO, AllocationConfig
from sara.simulation.config import TokensConfig
from sara.simulation.exact import BoundaryPair, Costs, cheapest_pair, ds_costs, fill_costs, threshold_boundaries
from sara.simulation.mixtures import RateMixture

NONE_MIXED = 1e-4  # a share of mixed groups below this is none: a fit to all-saturated counts never gets to 0
WORTHWHILE = 0.02  # savings below this share of DS's cost are not worth a change of method


@dataclass(frozen=True)
class Advice:
    """Settings for SARA, and what they save.

    tau_low, probe, increment  as in `allocation`
    boundaries                 fails and passes after which a prompt is abandoned
    saved                      share of DS's cost for an effective group
    lost                       share of the effective groups that is abandoned
    trained_rate, ds_rate      success rate of the rollouts trained on, and DS's
    fixed_saved                what the best fixed threshold saves
    reason                     one sentence
    """

    tau_low: float | str
    probe: int | str
    increment: int | str
    boundaries: BoundaryPair
    saved: float
    lost: float
    trained_rate: float
    ds_rate: float
    fixed_saved: float
    reason: str

    def apply_to(self, allocation: AllocationConfig) -> AllocationConfig:
        """The allocation with the advised settings."""
        advised = {"tau_low": self.tau_low, "probe": self.probe, "increment": self.increment}
        return AllocationConfig(**allocation.model_dump() | advised)


def has_mixed_groups(mixture: RateMixture, k: int) -> bool:
    """Whether groups of k are mixed often enough to plan for: at least one in 10,000."""
    return float(ds_costs(mixture, k).effective) >= NONE_MIXED


def recommend(mixture: RateMixture, allocation: AllocationConfig, tokens: TokensConfig) -> Advice | None:
    """The settings that cost least for each effective group when groups are filled; None if no group is effective."""
    k, cap = allocation.k, allocation.max_false_abandon
    lengths = (tokens.right, tokens.wrong)
    whole = ds_costs(mixture, k, *lengths)
    if not has_mixed_groups(mixture, k):
        return None

    def price(costs: Costs) -> NDArray[np.float64]:
        return costs.tokens_per_group if allocation.cost == "tokens" else costs.rollouts_per_group

    best = cheapest_pair(mixture, k, cap, allocation.cost, *lengths)
    learned = fill_costs(mixture, k, *best, *lengths)
    tau_low, fixed_at = _best_threshold(mixture, allocation, lengths, price)
    fixed = fill_costs(mixture, k, *fixed_at, *lengths)
    saved, fixed_saved = (float(1 - price(costs) / price(whole)) for costs in (learned, fixed))
    shared = {"ds_rate": float(whole.trained_rate), "fixed_saved": fixed_saved}
    if saved < WORTHWHILE:
        reason = (
            f"abandoning saves {_percent(saved)} of DS's {allocation.cost} at most, as "
            f"{_percent(float(whole.effective))} of the groups are mixed; 'auto' then abandons next to nothing, and "
            "what sara saves is that it opens as many prompts as are needed, where ds opens chunks"
        )
        return _advice(AUTO, AUTO, AUTO, best, saved, learned, shared, reason)
    where = f"after {best.fails} straight failures" if best.fails < k else "never for failures"
    where += f" or {best.passes} straight passes" if best.passes < k else ""
    if saved - fixed_saved >= WORTHWHILE:
        reason = (
            f"the best boundaries differ for failures and passes: abandoning {where} saves {_percent(saved)} of DS's "
            f"{allocation.cost}, the best fixed threshold {_percent(fixed_saved)}; 'auto' learns them while it trains"
        )
        return _advice(AUTO, AUTO, AUTO, best, saved, learned, shared, reason)
    first, last = sorted(fixed_at)
    increment = last - first or k - first
    reason = (
        f"abandoning after {fixed_at.fails} straight failures or {fixed_at.passes} straight passes saves "
        f"{_percent(fixed_saved)} of DS's {allocation.cost}; nothing is decided before {first}, so a smaller probe "
        "would only add rounds"
    )
    return _advice(tau_low, first, max(increment, 1), fixed_at, fixed_saved, fixed, shared, reason)


def _best_threshold(mixture, allocation: AllocationConfig, lengths, price) -> tuple[float, BoundaryPair]:
    """The cheapest fixed threshold under the cap, and its boundaries; of equally cheap ones the lowest."""
    k, prior = allocation.k, (allocation.alpha0, allocation.beta0)
    taus = _thresholds(k, *prior)
    boundaries = [threshold_boundaries(k, tau, *prior) for tau in taus]
    costs = fill_costs(mixture, k, *np.array(boundaries).T, *lengths)
    allowed = np.where(costs.lost <= allocation.max_false_abandon + 1e-12, price(costs), np.inf)
    cheapest = int(np.flatnonzero(allowed <= allowed.min() * (1 + 1e-12))[0])
    return float(taus[cheapest]), boundaries[cheapest]


def _thresholds(k: int, alpha0: float, beta0: float) -> NDArray[np.float64]:
    """One threshold for each behaviour that thresholds can have: midway between neighbouring values of p_eff."""
    n = np.arange(1, k + 1)
    chances = np.unique(np.concatenate([prob_effective(n, s, k, alpha0, beta0) for s in (np.zeros_like(n), n)]))
    middles = np.unique(np.round((chances[:-1] + chances[1:]) / 2, 4))
    return middles[middles > 0]


def _advice(tau_low, probe, increment, boundaries, saved, costs: Costs, shared: dict, reason: str) -> Advice:
    return Advice(
        tau_low=tau_low,
        probe=probe,
        increment=increment,
        boundaries=boundaries,
        saved=saved,
        lost=float(costs.lost),
        trained_rate=float(costs.trained_rate),
        reason=reason,
        **shared,
    )


def _percent(share: float) -> str:
    return f"{100 * max(share, 0):.0f}%"
