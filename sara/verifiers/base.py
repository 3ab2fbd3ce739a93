"""The contract of a verifier: a completion and a reference in, a verdict out.

Owns the three outcomes. Never decides what a verdict is worth to the learner: that is
`sara.rollouts`' reading of it (RIGHT 1, WRONG 0, UNSCORABLE missing).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Verdict(Enum):
    """What a verifier says of one completion."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSCORABLE = "unscorable"
    """The verifier could not decide (a faulty reference, a time-out): a missing reward, never a 0."""


Verifier = Callable[[str], Verdict]
"""A verifier bound to one problem: the completion's text in, its verdict out."""
