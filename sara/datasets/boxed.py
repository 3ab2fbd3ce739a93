r"""Problems whose answer is to be written in `\boxed{}`: what MATH, MATH-500, AIME and arithmetic have in common.

Owns the form of their rows and the instruction. What an answer is and when two are equal is `sara.verifiers`'.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Any

from sara.datasets.base import Field, Problem, Row
from sara.verifiers import Verdict, verify_math
from sara.verifiers.math import is_scorable_gold, prepare_math
from sara.verifiers.math.boxes import final_answer

INSTRUCTION = r"Let's think step by step and output the final answer within \boxed{}."

FIELDS = {
    "problem": Field(("problem", "question", "text", "prompt")),
    "answer": Field(("answer", "gold", "final_answer", "ground_truth"), instead="solution"),
    "solution": Field(("solution",), is_required=False),
    "subject": Field(("subject", "type"), is_required=False),
    "level": Field(("level",), is_required=False),
    "id": Field(("id", "unique_id", "problem_id"), is_required=False),
}


def boxed_problem(
    problem_id: str,
    text: str,
    answer: str | None,
    subject: str | None = None,
    level: int | None = None,
    solution: str | None = None,
) -> Problem:
    """The problem that a model is asked and that `verify_math` judges; one without an answer cannot be scored."""
    known = {"answer": answer, "subject": subject, "level": level, "solution": solution}
    return Problem(
        id=problem_id,
        text=text,
        reference={name: value for name, value in known.items() if value is not None or name == "answer"},
        verify=_unscorable if answer is None else partial(_verify, gold=answer),
        answer=_answer,
        is_same=_is_same,
        get_ready=prepare_math,
        instruction=INSTRUCTION,
        subject=subject,
        level=level,
    )


def _verify(response: str, gold: str) -> Verdict:
    return verify_math(response, gold)


def _unscorable(response: str) -> Verdict:
    return Verdict.UNSCORABLE


def read_boxed(row: Row, place: str) -> Problem:
    r"""Problem of a row; where it has no answer of its own, that is the last `\boxed{}` of the solution, as in MATH.

    Raises ValueError, naming the row's place, for a text, an answer or a level of the wrong kind.
    """
    text, solution, subject = row["problem"], row.get("solution"), row.get("subject")
    if not (isinstance(text, str) and text.strip()):
        raise ValueError(f"{place}: problem = {text!r}; expected a text that is not empty")
    return boxed_problem(
        problem_id=_id(row.get("id"), text),
        text=text.strip(),
        answer=_answer_text(row.get("answer"), solution, place),
        subject=str(subject) if subject is not None else None,
        level=_level(row.get("level"), place),
        solution=solution,
    )


def _answer(response: str) -> str | None:
    answer = final_answer(response)
    return answer.strip() or None if answer is not None else None


def _is_same(answer: str, other: str) -> bool:
    """As the verifier compares a response with a reference."""
    return answer == other or verify_math(rf"\boxed{{{answer}}}", other) is Verdict.RIGHT


def reference_fault(problem: Problem) -> str | None:
    """Why no response can be scored against a problem's answer; None if one can."""
    answer = problem.reference["answer"]
    if answer is None:
        return "no answer"
    return None if is_scorable_gold(answer) else f"an answer that cannot be read: {answer[:60]!r}"


def _id(value: Any, text: str) -> str:
    if value is None or value == "":
        return hashlib.sha256(text.encode()).hexdigest()[:12]
    return str(value)


def _answer_text(answer: Any, solution: Any, place: str) -> str | None:
    if isinstance(answer, bool) or not isinstance(answer, (str, int, float, type(None))):
        raise ValueError(f"{place}: answer = {answer!r}; expected a text or a number")
    if answer is None and isinstance(solution, str):
        answer = final_answer(solution)
    return str(answer).strip() or None if answer is not None else None


def _level(value: Any, place: str) -> int | None:
    """5 of 5, "5" and "Level 5"; None where a row does not know it."""
    if value is None or isinstance(value, int):
        return value
    digits = re.search(r"\d+", value) if isinstance(value, str) else None
    if digits is None and value not in ("", "Level ?"):
        raise ValueError(f"{place}: level = {value!r}; expected a number, or a text such as 'Level 5'")
    return int(digits.group()) if digits else None
