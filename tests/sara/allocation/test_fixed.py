from __future__ import annotations

import numpy as np

from sara.allocation import Fate, FixedAllocator, Ledger, Limits


def test_fixed_opens_the_target_once_and_draws_whole_groups():
    allocator, ledger, limits = FixedAllocator(k=8), Ledger(), Limits(target=16)
    assert allocator.num_to_open(ledger, limits) == 16
    ledger.open(np.arange(16))
    assert allocator.allocate(ledger, limits).tolist() == [8] * 16
    assert allocator.num_to_open(ledger, limits) == 0


def test_fixed_trains_saturated_groups_too():
    allocator, ledger = FixedAllocator(k=4), Ledger()
    ledger.open(np.arange(3))
    ledger.issued[:] = ledger.n[:] = 4
    ledger.s[:] = [0, 2, 4]
    allocator.judge(ledger)
    assert ledger.fate.tolist() == [Fate.COMMITTED] * 3
