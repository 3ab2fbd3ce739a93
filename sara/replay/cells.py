"""Cells: one value of a log as a key, a number, or nothing.

Owns what counts as a prompt, a reward, a step and a length, and the errors that say which value is not one.
Never reads a file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_LENGTH = -1
_LONGEST = 2**53
Where = Callable[[int], str]  # names row i of a chunk: "log.jsonl, line 12"


def prompt_key(value: Any, where: str) -> tuple[int, str]:
    """A 64-bit key of a prompt or prompt id, and its kind: text, number or structure.

    Two of a million different prompts share a key with chance 3e-8. Keys are all that is kept of the text.
    Raises ValueError on a value that cannot name a prompt.
    """
    if isinstance(value, str):
        kind, text = "text", value
    elif isinstance(value, (list, dict)):
        kind, text = "structure", json.dumps(value, sort_keys=True, default=str)
    elif _is_whole(value):
        kind, text = "number", str(int(value))
    else:
        raise ValueError(f"{where}: prompt {_shown(value)}; expected a text, a whole number or a list of messages")
    digest = hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little"), kind


def reward_values(values: Iterable[Any], column: str, where: Where) -> NDArray[np.float64]:
    """(N,) float64, NaN where there is no reward. Raises ValueError on text and structures."""
    rewards = []
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, (bool, int, float)):
            raise ValueError(f"{where(i)}: column {column!r} holds {_shown(value)}; expected a number or true or false")
        try:
            rewards.append(math.nan if value is None else float(value))
        except OverflowError:
            raise ValueError(f"{where(i)}: column {column!r} holds {_shown(value)}; expected 0 and 1") from None
    return np.array(rewards, dtype=np.float64)


def step_label(value: Any, where: str) -> int | str | None:
    """A step as a whole number where it is one, else as text; None where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.isdigit() else text
    if _is_whole(value):
        return int(value)
    raise ValueError(f"{where}: step {_shown(value)}; expected a whole number or a text")


def length_values(values: Iterable[Any], column: str, where: Where) -> NDArray[np.int64]:
    """(N,) int64 tokens, from numbers or from lists of token ids; NO_LENGTH where there is none."""
    return np.array([_length(value, column, where, i) for i, value in enumerate(values)], dtype=np.int64)


def text_lengths(values: Iterable[Any]) -> tuple[NDArray[np.int64], set[str]]:
    """(N,) int64 lengths of completions, and the units they are in: tokens of lists of token ids, else characters."""
    lengths, units = [], set()
    for value in values:
        is_ids = _is_token_ids(value)
        lengths.append(NO_LENGTH if value is None else len(value) if is_ids else _characters(value))
        if value:
            units.add("tokens" if is_ids else "characters")
    return np.array(lengths, dtype=np.int64), units


def to_binary(
    rewards: NDArray[np.float64], threshold: float | None, column: str, where: str, hint: str
) -> NDArray[np.int8]:
    """(N,) int8 of 0 and 1 from rewards without NaN: as they are, or 1 from `threshold` up.

    Raises ValueError, naming the values, where they are not 0 and 1 and there is no threshold.
    """
    if threshold is not None:
        return (rewards >= threshold).astype(np.int8)
    if not ((rewards == 0) | (rewards == 1)).all():
        values = np.unique(rewards)
        shown = ", ".join(_exactly(value) for value in values[:6]) + (", ..." if values.size > 6 else "")
        middle = (values[0] + values[-1]) / 2
        example = f"{middle:g}" if np.isfinite(middle) else "0.5"
        if not values[0] < float(example) <= values[-1]:
            example = _exactly(middle) if np.isfinite(middle) else example
        raise ValueError(
            f"{where}: column {column!r} holds {shown}; expected 0 and 1; --threshold {example} would count rewards "
            f"of at least {example} as right{hint}"
        )
    return rewards.astype(np.int8)


def _length(value: Any, column: str, where: Where, i: int) -> int:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NO_LENGTH
    if isinstance(value, list):
        return len(value)
    if _is_whole(value) and 0 <= value <= _LONGEST:
        return int(value)
    raise ValueError(f"{where(i)}: column {column!r} holds {_shown(value)}; expected a whole number in [0, 2^53]")


def _is_whole(value: Any) -> bool:
    return (isinstance(value, float) and value.is_integer()) or (isinstance(value, int) and not isinstance(value, bool))


def _is_token_ids(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, int) for item in value)


def _characters(value: Any) -> int:
    """Characters of a text, or of the contents of a list of messages."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return _characters(value.get("content") or "")
    return sum(map(_characters, value)) if isinstance(value, (list, tuple)) else len(str(value))


def _exactly(number: float) -> str:
    """The shortest text that reads back as the number: 0 and 0.5, but also 0.9999999999."""
    return repr(float(number)).removesuffix(".0")


def _shown(value: Any) -> str:
    text = hex(value) if isinstance(value, int) and value.bit_length() > 4000 else repr(value)  # repr has its limit
    return text if len(text) <= 40 else text[:39] + "…"
