"""Fixed allocation: B prompts once, k rollouts each, all trained whatever their rewards (uniform, DPS)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sara.allocation.base import Allocator, Limits, within_budget
from sara.allocation.ledger import Fate, Ledger


class FixedAllocator(Allocator):
    """One round: `limits.target` prompts (or as many as the budget buys), k rollouts each."""

    def __init__(self, k: int = 8) -> None:
        super().__init__(k)

    def num_to_open(self, ledger: Ledger, limits: Limits) -> int:
        if len(ledger):
            return 0
        wanted = [count for count in (limits.target, self.num_affordable(ledger, limits)) if count is not None]
        return min(wanted)

    def allocate(self, ledger: Ledger, limits: Limits) -> NDArray[np.int64]:
        counts = self.outstanding(ledger)
        return within_budget(counts, counts > 0, limits.rollouts_left(ledger))

    def judge(self, ledger: Ledger) -> None:
        ledger.fate[(ledger.fate == Fate.OPEN) & (ledger.n > 0)] = Fate.COMMITTED
