"""Driving: the training loop's own collection, with a log in the place of the engine.

Owns the totals of a driven replay. Never decides: allocators do, as in training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Allocator, Fate, Ledger, Limits
from sara.collection import collect
from sara.replay.grouplog import GroupLog
from sara.replay.source import LoggedOrder, LoggedRollouts


@dataclass(frozen=True)
class Driven:
    """Totals over the steps of a log.

    opened, trained, effective  groups opened, trained on, and those among them whose rewards differ
    surplus                     groups committed beyond the target
    abandoned, false_abandoned  groups left before k, and those among them that are effective in the log at k
    rollouts, lengths           generated; lengths is None where the log has none
    rounds                      mean over steps
    outcomes                    steps by what ended them: "target", or "prompts" where the log had no more
    """

    opened: int
    trained: int
    effective: int
    surplus: int
    abandoned: int
    false_abandoned: int
    rollouts: int
    lengths: int | None
    rounds: float
    outcomes: dict[str, int]

    @property
    def lost(self) -> float:
        """Share of the effective groups met that it abandoned."""
        met = self.effective + self.surplus + self.false_abandoned
        return self.false_abandoned / met if met else 0.0

    def cost(self, unit: str | None) -> float:
        """Tokens for each effective group trained, or rollouts where the log has no tokens; infinite without any."""
        spent = self.lengths if unit == "tokens" else self.rollouts
        return spent / self.effective if self.effective else math.inf


def drive(
    log: GroupLog,
    allocator: Allocator,
    order: NDArray[np.int64] | None = None,
    target: int | None = None,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda done: None,
) -> Driven:
    """Collect every step of `log` with `allocator`, opening its groups in logged order.

    order   a permutation of the rollouts inside their groups (`shuffled_order`); None: as logged
    target  effective groups at which a step stops; None: no step stops before all its groups are opened
    seed    of the order in which surplus is dropped
    on_step told the steps done so far

    Groups of fewer than `allocator.k` rollouts are not opened. Raises ValueError if that leaves none.
    """
    source, k = LoggedRollouts(log, order), allocator.k
    usable = np.flatnonzero(log.sizes >= k)
    if not usable.size:
        raise ValueError(f"k = {k}; expected at most {log.sizes.max()}, the size of the largest group")
    sums: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for groups in np.split(usable, np.flatnonzero(np.diff(log.steps[usable])) + 1):
        limits = Limits(target=target or groups.size)
        collection = collect(int(log.steps[groups[0]]), LoggedOrder(groups), allocator, source, limits, seed)
        outcomes[collection.outcome] += 1
        sums.update(collection.metrics())
        sums.update(_abandoned(source, collection.ledger, k))
        on_step(outcomes.total())
    return _totals(sums, outcomes, has_lengths=log.lengths is not None)


def _abandoned(source: LoggedRollouts, ledger: Ledger, k: int) -> dict[str, int]:
    """Groups left before k, and how many of them would have been effective: the log knows."""
    early = ledger.prompts[ledger.has_fate(Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS) & (ledger.n < k)]
    rows = source.log.offsets[early][:, None] + np.arange(k)  # (A, k)
    successes = source.log.rewards[rows if source.order is None else source.order[rows]].sum(axis=1)
    return {"abandoned": early.size, "false": int(np.count_nonzero((successes > 0) & (successes < k)))}


def _totals(sums: Counter[str], outcomes: Counter[str], *, has_lengths: bool) -> Driven:
    return Driven(
        opened=int(sums["groups/opened"]),
        trained=int(sums["groups/trained"]),
        effective=int(sums["groups/effective"]),
        surplus=int(sums["groups/surplus"]),
        abandoned=int(sums["abandoned"]),
        false_abandoned=int(sums["false"]),
        rollouts=int(sums["rollouts/generated"]),
        lengths=int(sums["tokens/generated"]) if has_lengths else None,
        rounds=sums["rounds"] / outcomes.total(),
        outcomes=dict(outcomes),
    )
