"""Allocators in a state that tests by hand set out from."""

from __future__ import annotations

from sara.allocation import SequentialAllocator


def after_one_abandoned(allocator: SequentialAllocator) -> SequentialAllocator:
    """As after a step that abandoned the only prompt it opened: a commit rate of 1/2, so twice the target is opened."""
    allocator.load_state_dict(allocator.state_dict() | {"past_resolved": 1.0})
    return allocator
