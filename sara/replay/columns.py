"""Columns: which column of a log is the prompt, the reward, the step, the length.

Owns the names by which logs are recognised and the `--columns` mapping. Never reads a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

ROLES: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt_id", "prompt", "problem_id", "problem", "question_id", "question", "query", "input"),
    "reward": ("reward", "score", "is_correct", "correct"),
    "step": ("step", "global_step"),
    "length": (
        "length",
        "tokens",
        "num_tokens",
        *(f"{text}_{unit}" for text in ("completion", "response", "output") for unit in ("length", "tokens", "ids")),
    ),
    "completion": ("completion", "response", "output", "generation"),
}
REQUIRED = ("prompt", "reward")
_TRL = frozenset({"step", "prompt", "completion", "advantage"})  # plus one column a reward function, named after it
_VERL = frozenset({"input", "output", "score"})  # plus gts, step and whatever the reward function returned


@dataclass(frozen=True)
class Columns:
    """The column of each role, None where the log has none; `layout` says as what the log was recognised.

    reward_hint  what to add when the rewards turn out not to be 0 and 1
    """

    layout: str
    reward_hint: str
    prompt: str
    reward: str
    step: str | None
    length: str | None
    completion: str | None

    def used(self) -> list[str]:
        """The columns to read; the completion only where there is no length."""
        names = [self.prompt, self.reward, self.step, self.length or self.completion]
        return list(dict.fromkeys(name for name in names if name is not None))


def parse_mapping(text: str | None) -> dict[str, str]:
    """`prompt=question,reward=accuracy` as a mapping of roles to columns. Raises ValueError on anything else."""
    mapping: dict[str, str] = {}
    for pair in (text or "").split(","):
        role, equals, column = (part.strip() for part in pair.partition("="))
        if not pair.strip():
            continue
        if not (role and equals and column):
            raise ValueError(f"--columns {pair.strip()!r}; expected role=column, such as prompt=question")
        if role not in ROLES:
            near = get_close_matches(role, ROLES, n=1, cutoff=0.0)[0]
            raise ValueError(f"--columns {role!r} is unknown; did you mean {near!r}? Known: {', '.join(ROLES)}")
        mapping[role] = column
    return mapping


def recognise(found: Sequence[str], numeric: Collection[str], mapping: Mapping[str, str], where: str) -> Columns:
    """The columns of a log that has the columns `found`, those in `mapping` as they are named there.

    numeric  the columns that hold numbers or booleans: TRL gives each reward function a column of its own name
    where    the file, for messages

    Raises ValueError, with the columns found, where a needed column is missing or could be any of several.
    """
    named = {role: next((name for name in names if name in found), None) for role, names in ROLES.items()}
    is_trl = set(found) >= _TRL
    if is_trl and named["reward"] is None and "reward" not in mapping:
        named["reward"] = _trl_reward(found, numeric, where)
    named |= mapping
    for role, column in named.items():
        if column is not None and column not in found:
            raise ValueError(f"{where}: no column {column!r} for the {role}; found {_listed(found)}")
    for role in REQUIRED:
        if named[role] is None:
            raise ValueError(f"{where}: no {role} column; found {_listed(found)}; name it with --columns {role}=...")
    layout = "TRL completion log" if is_trl else "verl rollout dump" if set(found) >= _VERL else "log"
    has_accuracy = "acc" in numeric and named["reward"] != "acc"  # verl's shaped rewards come with the plain one
    return Columns(layout, "; --columns reward=acc would take another column" if has_accuracy else "", **named)


def _trl_reward(found: Sequence[str], numeric: Collection[str], where: str) -> str:
    functions = [name for name in found if name in numeric and name not in _TRL]
    if len(functions) == 1:
        return functions[0]
    choice = f"one of {_listed(functions)}" if functions else f"a column that holds numbers; found {_listed(found)}"
    raise ValueError(f"{where}: a TRL completion log; say with --columns reward=... which reward to use: {choice}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:20]))
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "none"
