"""Dynamic sampling (DAPO, Yu et al. 2025, section 3.2): whole groups until enough of them are mixed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sara.allocation.base import Allocator, Limits, mark_saturated, require_count, within_budget
from sara.allocation.ledger import Fate, Ledger


class DynamicSamplingAllocator(Allocator):
    """Chunks of B prompts, k rollouts each, until B groups are effective or `max_gen_batches` are drawn.

    chunk            prompts open at a time; None: `limits.target`, and without a target all that the budget buys
    max_gen_batches  chunks of one step; None: no cap. At the cap the step trains on what it has.
    """

    def __init__(self, k: int = 8, max_gen_batches: int | None = 10, chunk: int | None = None) -> None:
        super().__init__(k)
        for name, value in (("max_gen_batches", max_gen_batches), ("chunk", chunk)):
            if value is not None:
                require_count(f"allocator.{name}", value)
        self.chunk = chunk
        self.max_rounds = max_gen_batches  # each chunk is one round

    def num_to_open(self, ledger: Ledger, limits: Limits) -> int:
        if limits.is_reached_by(ledger):
            return 0
        affordable = self.num_affordable(ledger, limits)
        chunk = self.chunk or limits.target or affordable
        wanted = chunk - ledger.num_open  # in rounds none is open any more; a stream keeps a chunk of them open
        if self.max_rounds is not None:
            wanted = min(wanted, self.max_rounds * chunk - len(ledger))
        return max(wanted if affordable is None else min(wanted, affordable), 0)

    def allocate(self, ledger: Ledger, limits: Limits) -> NDArray[np.int64]:
        counts = self.outstanding(ledger)
        return within_budget(counts, counts > 0, limits.rollouts_left(ledger))

    def judge(self, ledger: Ledger) -> None:
        is_open = ledger.fate == Fate.OPEN
        ledger.fate[is_open & ledger.is_mixed] = Fate.COMMITTED
        mark_saturated(ledger, is_open & ~ledger.is_mixed & (ledger.n == self.k))
