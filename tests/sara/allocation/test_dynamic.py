from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import DynamicSamplingAllocator, Fate, Ledger, Limits


def test_dynamic_sampling_opens_one_chunk_after_another_until_the_target():
    allocator, ledger, limits = DynamicSamplingAllocator(k=4), Ledger(), Limits(target=3)
    assert allocator.num_to_open(ledger, limits) == 3
    ledger.open(np.arange(3))
    assert allocator.allocate(ledger, limits).tolist() == [4, 4, 4]
    ledger.issued[:] = ledger.n[:] = 4
    ledger.s[:] = [0, 4, 3]
    allocator.judge(ledger)
    assert ledger.fate.tolist() == [Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS, Fate.COMMITTED]
    assert allocator.num_to_open(ledger, limits) == 3  # a whole chunk for a shortfall of 2
    ledger.fate[:] = Fate.COMMITTED
    assert allocator.num_to_open(ledger, limits) == 0


def test_chunk_may_differ_from_the_target_and_shrinks_to_the_budget():
    allocator = DynamicSamplingAllocator(k=4, chunk=10)
    assert allocator.num_to_open(Ledger(), Limits(target=3)) == 10
    assert allocator.num_to_open(Ledger(), Limits(target=3, budget=30)) == 7


@pytest.mark.parametrize("option", ["max_gen_batches", "chunk"])
def test_dynamic_sampling_refuses_a_count_below_one(option):
    with pytest.raises(ValueError, match=rf"allocator\.{option} = 0; expected an integer of at least 1"):
        DynamicSamplingAllocator(**{option: 0})
