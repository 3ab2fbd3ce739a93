"""The contract of a data set: problems with a text, a reference and a verifier.

Owns what a problem is. Never knows which model will read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sara.verifiers import Verifier


@dataclass(frozen=True)
class Problem:
    """One prompt with its reference answer.

    id          unique inside its data set, stable across runs
    text        the prompt's text, before any chat template
    reference   plain JSON values that the verifier was built from, kept for artifacts
    verify      verifier bound to this problem
    """

    id: str
    text: str
    reference: dict[str, Any]
    verify: Verifier = field(repr=False, compare=False)
