"""A log of finished groups: who was asked, in which step, and what each rollout came to.

Owns the ragged arrays and the counts of what was left out of them. Never reads a file, never decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass
class Skipped:
    """What a log held that a replay cannot use, or has to take for something, counted."""

    broken_lines: int = 0
    first_broken: str | None = None
    empty_files: int = 0
    without_prompt: int = 0
    without_step: int = 0
    without_reward: int = 0
    without_length: int = 0
    groups_of_one: int = 0
    files_without_steps: int = 0


@dataclass(frozen=True)
class Rows:
    """The rollouts of a log in the order they were read, all arrays (N,).

    prompts  uint64, keys of the prompts
    steps    int64, indices into `step_labels`
    files    int64, indices of the files they came from
    rewards  int8, 0 or 1
    lengths  int64, None where the log has no lengths
    """

    prompts: NDArray[np.uint64]
    steps: NDArray[np.int64]
    files: NDArray[np.int64]
    rewards: NDArray[np.int8]
    lengths: NDArray[np.int64] | None
    step_labels: tuple[int | str, ...]


@dataclass(frozen=True)
class GroupLog:
    """G groups of N rollouts in P prompts: by step, in a step in logged order, in a group in logged order.

    rewards      (N,) int8, 0 or 1
    lengths      (N,) int64 or None, in `unit`: "tokens" or "characters"
    offsets      (G+1,) int64, group g is rollouts offsets[g] .. offsets[g+1]
    prompts      (G,) int64 in 0..P-1, which prompt a group is of
    steps        (G,) int64, rising, indices into `step_labels`
    k            the commonest group size, the larger of equals
    num_spanning groups whose rollouts came from several files
    """

    rewards: NDArray[np.int8]
    lengths: NDArray[np.int64] | None
    unit: str | None
    offsets: NDArray[np.int64]
    prompts: NDArray[np.int64]
    steps: NDArray[np.int64]
    step_labels: tuple[int | str, ...]
    k: int
    num_spanning: int = 0
    layouts: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    skipped: Skipped = field(default_factory=Skipped)

    @property
    def num_groups(self) -> int:
        return self.prompts.size

    @property
    def num_rollouts(self) -> int:
        return self.rewards.size

    @property
    def num_prompts(self) -> int:
        return int(self.prompts.max()) + 1 if self.prompts.size else 0

    @property
    def num_steps(self) -> int:
        return np.unique(self.steps).size

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(G,) int64: rollouts of each group, N_g."""
        return np.diff(self.offsets)

    @property
    def successes(self) -> NDArray[np.int64]:
        """(G,) int64: right rollouts of each group, S_g."""
        return np.add.reduceat(self.rewards, self.offsets[:-1], dtype=np.int64)

    @property
    def group_of(self) -> NDArray[np.int64]:
        """(N,) int64: the group of each rollout."""
        return np.repeat(np.arange(self.num_groups), self.sizes)

    def mean_lengths(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """(G,) float64 twice: mean length of the right and of the wrong rollouts, 0 where there are none."""
        if self.lengths is None:
            return None
        total = np.add.reduceat(self.lengths, self.offsets[:-1], dtype=np.int64)
        right = np.add.reduceat(self.lengths * self.rewards, self.offsets[:-1], dtype=np.int64)
        wrong = self.sizes - self.successes
        return right / np.maximum(self.successes, 1), (total - right) / np.maximum(wrong, 1)


def build_log(rows: Rows, unit: str | None, skipped: Skipped, **origin) -> GroupLog:
    """Group rows by step and prompt. Groups of one rollout are counted and left out; raises ValueError if all are.

    Steps are put in rising order if all are whole numbers, else they keep the order in which they were met.
    """
    if not rows.rewards.size:
        raise ValueError(_nothing_usable(skipped))
    rank, labels = _step_ranks(rows.step_labels)
    steps = rank[rows.steps]
    by_group = np.lexsort((rows.prompts, steps))  # stable: in a group, logged order
    is_first = _changes(steps[by_group]) | _changes(rows.prompts[by_group])
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, by_group.size))
    logged = np.lexsort((by_group[starts], steps[by_group[starts]]))  # groups of a step by their first rollout
    kept = logged[sizes[logged] >= 2]
    skipped.groups_of_one = int(np.count_nonzero(sizes == 1))
    if not kept.size:
        raise ValueError(
            f"every group is a group of one: {rows.rewards.size} rollouts, each the only one of its prompt and step; "
            f"expected several rollouts a prompt (is the prompt column the right one?); "
            f"left out before: {_left_out(skipped)}"
        )
    chosen = by_group[_ranges(starts[kept], sizes[kept])]
    offsets = np.append(0, np.cumsum(sizes[kept]))
    files = rows.files[chosen]
    firsts = chosen[offsets[:-1]]
    num_spanning = np.count_nonzero(
        np.minimum.reduceat(files, offsets[:-1]) != np.maximum.reduceat(files, offsets[:-1])
    )
    counts = np.bincount(sizes[kept])
    return GroupLog(
        rewards=rows.rewards[chosen],
        lengths=None if rows.lengths is None else rows.lengths[chosen],
        unit=unit,
        offsets=offsets,
        prompts=np.unique(rows.prompts[firsts], return_inverse=True)[1].astype(np.int64),
        steps=steps[firsts],
        step_labels=labels,
        k=int(counts.size - 1 - np.argmax(counts[::-1])),
        num_spanning=int(num_spanning),
        skipped=skipped,
        **origin,
    )


def _step_ranks(labels: tuple[int | str, ...]) -> tuple[NDArray[np.int64], tuple[int | str, ...]]:
    order = np.arange(len(labels))
    if all(isinstance(label, int) for label in labels):
        order = np.array(sorted(order, key=lambda i: labels[i]), dtype=np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank, tuple(labels[i] for i in order)


def _changes(values: NDArray) -> NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """starts[0], .., starts[0] + sizes[0] - 1, starts[1], ..: the rows of each group after another."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def _nothing_usable(skipped: Skipped) -> str:
    return f"no rollout that can be used: {_left_out(skipped)}"


def _left_out(skipped: Skipped) -> str:
    return (
        f"{skipped.without_prompt} without a prompt, {skipped.without_step} without a step, "
        f"{skipped.without_reward} without a reward"
    )
