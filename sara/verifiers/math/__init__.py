"""The math verifier: a response and the gold answer in, a verdict out."""

from sara.verifiers.math.verification import Grade, grade_math, is_scorable_gold, prepare_math, verify_math

__all__ = ["Grade", "grade_math", "is_scorable_gold", "prepare_math", "verify_math"]
