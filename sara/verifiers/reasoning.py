"""What a response says once its reasoning is over. Shared by the verifiers; knows nothing of any answer's form."""

from __future__ import annotations


def said_after_reasoning(response: str) -> str | None:
    """Text after the last `</think>`; None where a `<think>` is still open, for the reasoning was cut off."""
    said = response.rpartition("</think>")[2]
    return None if "<think>" in said else said
