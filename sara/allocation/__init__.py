"""Allocation: beliefs, the stopping rule and the allocators. numpy and scipy only."""

from sara.allocation.base import Allocator, Limits
from sara.allocation.beliefs import prob_effective
from sara.allocation.dynamic import DynamicSamplingAllocator
from sara.allocation.fixed import FixedAllocator
from sara.allocation.ledger import MISSING, Draws, Fate, Ledger, Outcomes
from sara.allocation.sequential import SequentialAllocator

ALLOCATORS: dict[str, type[Allocator]] = {
    "fixed": FixedAllocator,
    "ds": DynamicSamplingAllocator,
    "sara": SequentialAllocator,
}

__all__ = [
    "ALLOCATORS",
    "MISSING",
    "Allocator",
    "Draws",
    "DynamicSamplingAllocator",
    "Fate",
    "FixedAllocator",
    "Ledger",
    "Limits",
    "Outcomes",
    "SequentialAllocator",
    "prob_effective",
]
