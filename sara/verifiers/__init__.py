"""Verifiers: from a completion and a reference to a verdict, without running any model output."""

from sara.verifiers.base import Verdict, Verifier
from sara.verifiers.countdown import verify_countdown
from sara.verifiers.math import is_scorable_gold, prepare_math, verify_math

__all__ = ["Verdict", "Verifier", "is_scorable_gold", "prepare_math", "verify_countdown", "verify_math"]
