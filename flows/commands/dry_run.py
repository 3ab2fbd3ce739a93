"""`--dry-run`: what runs will do and need, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sara.config import RunConfig
    from sara.sizing import Outline


def show_outlines(runs: Sequence[RunConfig], as_json: bool, gpu_gib: float | None = None) -> None:
    """Print the outline of each run; raises ValueError for what would stop them.

    gpu_gib   memory of the GPU that they are meant for; of this machine's, if it has one, where it is not said
    """
    from sara.sizing import gpu_memory_gib, outline

    outlines = [outline(run) for run in runs]
    gpu_gib = gpu_memory_gib(runs[0]) if gpu_gib is None else gpu_gib
    if as_json:
        shown = [found.as_json() | {"gpu_memory_gib": gpu_gib} for found in outlines]
        print(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2))
        return
    print("\n".join(text(outlines, gpu_gib)))


def text(outlines: Sequence[Outline], gpu_gib: float | None) -> list[str]:
    """What all runs have in common, then a line for each."""
    first = outlines[0]
    config, shape = first.config, first.shape
    problems = ", ".join(f"{name} {_count(count)}" for name, count in first.problems.items())
    trained = "" if shape.trained == shape.parameters else f", {shape.trained:,} of them trained"
    lines = [
        f"model     {shape.name}: {shape.parameters:,} parameters{trained}, context {shape.context:,} ({shape.source})",
        f"data      {config.data.train} / {config.data.heldout}: {problems} problems; prompts of at most "
        f"{first.prompt:,} tokens, answers of {config.engine.max_new_tokens:,}",
        *_batch_lines(first),
        *_memory_lines(first, gpu_gib),
    ]
    lines += [f"run       {_run_line(found)}" for found in outlines]
    return lines + [f"note      {note}" for note in dict.fromkeys(note for found in outlines for note in found.notes)]


def _batch_lines(found: Outline) -> list[str]:
    config, steps = found.config, found.config.training.steps
    count, each = found.evaluations
    size = "rollouts of each not known here" if each is None else f"{each:,} rollouts each"
    return [
        f"batch     {config.allocation.groups_per_step} groups of {config.allocation.k}; {found.updates} updates a "
        f"step of {found.groups:g} groups ({found.groups * config.allocation.k:,g} rollouts) each",
        f"steps     {steps:,}, so {found.updates * steps:,} updates; {count:,} evaluations, {size}",
    ]


def _memory_lines(found: Outline, gpu_gib: float | None) -> list[str]:
    """Each item, then the sum of each phase and whether a GPU has it."""
    from sara.sizing import phase_totals

    width = max(len(item.name) for item in found.memory)
    lines = [
        f"memory    {item.name:<{width}} {_gib(item.size)}  {'about ' if item.is_estimate else ''}{item.why}"
        for item in found.memory
    ]
    totals = phase_totals(found.memory)
    lines += [f"memory    {f'{phase}':<{width}} {_gib(size)}  at once" for phase, size in totals.items()]
    if gpu_gib is None:
        return lines
    room = gpu_gib - max(totals.values()) / 2**30
    verdict = f"fits, {room:.1f} GiB to spare" if room >= 0 else f"does not fit, {-room:.1f} GiB too much"
    return [*lines, f"memory    {'of the GPU':<{width}} {gpu_gib:8.2f} GiB  {verdict}"]


def _run_line(found: Outline) -> str:
    config, (low, high) = found.config, found.rollouts
    steps = config.training.steps
    if low == high:
        amount = f"{low:,} rollouts a step, {low * steps:,} in all"
    else:
        amount = f"{low:,} to {high:,} rollouts a step, {low * steps:,} to {high * steps:,} in all"
    return f"{config.title}: {amount}; at most {high * config.engine.max_new_tokens:,} tokens a step"


def _count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _gib(size: int) -> str:
    return f"{size / 2**30:8.2f} GiB"
