"""The math verifier: a response and the gold answer in, a verdict out."""

from sara.verifiers.math.verification import Grade, grade_math, is_scorable_gold, verify_math

__all__ = ["Grade", "grade_math", "is_scorable_gold", "verify_math"]
