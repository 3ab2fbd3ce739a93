"""Verifiers: from a completion and a reference to a verdict, without running any model output."""

from sara.verifiers.base import Verdict, Verifier
from sara.verifiers.countdown import verify_countdown

__all__ = ["Verdict", "Verifier", "verify_countdown"]
