"""Weights in memory that other processes map, so that a sync copies them once and sends only where they lie.

Owns one block of anonymous memory of the size of the model; it is no file, and does not count against /dev/shm.
Linux only, as vLLM is.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

_ALIGNMENT = 64  # bytes; every tensor starts at a multiple
_SMALLEST_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class Placement:
    """Where one tensor lies in the block: `offset` in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def num_bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def view(self, block: mmap.mmap) -> Tensor:
        flat = torch.frombuffer(block, dtype=self.dtype, count=torch.Size(self.shape).numel(), offset=self.offset)
        return flat.view(self.shape)


@dataclass(frozen=True)
class WeightsAddress:
    """The weights as any process can read them: picklable, valid while their owner lives.

    Iterates over (name, tensor): views of the block, to be copied, never changed, before the next sync.
    """

    path: str
    num_bytes: int
    placements: tuple[Placement, ...]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        with Path(self.path).open("rb+") as file:
            block = mmap.mmap(file.fileno(), self.num_bytes) if self.num_bytes else mmap.mmap(-1, _ALIGNMENT)
        for placement in self.placements:
            yield placement.name, placement.view(block)


class SharedWeights:
    """The block, in the process that writes it.

    dtype   type that the weights are stored in, whatever the learner's is
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._descriptor = os.memfd_create("sara-weights")
        self._block: mmap.mmap | None = None

    @torch.no_grad()
    def write(self, named_weights: Iterable[tuple[str, Tensor]]) -> WeightsAddress:
        """Copy the weights into the block, one at a time, and keep them there until the next call."""
        placements, end = [], 0
        for name, weight in named_weights:
            placement = Placement(name, self._dtype, tuple(weight.shape), end)
            end += -(-placement.num_bytes // _ALIGNMENT) * _ALIGNMENT
            self._make_room(end)
            if weight.numel():
                placement.view(self._block).copy_(weight)
            placements.append(placement)
        return WeightsAddress(f"/proc/{os.getpid()}/fd/{self._descriptor}", end, tuple(placements))

    def _make_room(self, num_bytes: int) -> None:
        if self._block is None or len(self._block) < num_bytes:
            capacity = max(
                num_bytes, 2 * len(self._block or b""), _SMALLEST_BLOCK
            )  # pages never written to cost nothing
            os.ftruncate(self._descriptor, capacity)
            self._block = mmap.mmap(self._descriptor, capacity)

    def close(self) -> None:
        """Let go of the block; the processes that map it keep what they mapped."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._block = -1, None
