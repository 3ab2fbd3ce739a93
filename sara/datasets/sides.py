"""The split of sets that are made or that come whole: a property of a problem, not of a data set.

A hash of what a problem asks puts it on the training side or the held-out side, for every seed and size.
"""

from __future__ import annotations

import hashlib

from sara.datasets.base import Split

HELDOUT_ONE_IN = 5


def side_of(content: str) -> Split:
    """Side of a problem, by what it asks: one in HELDOUT_ONE_IN is held out."""
    bucket = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big") % HELDOUT_ONE_IN
    return "heldout" if bucket == 0 else "train"
