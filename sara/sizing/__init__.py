"""What a run will do and need, told before it starts: `--dry-run`. No weights are loaded, nothing is written."""

from sara.sizing.memory import MemoryItem, gpu_memory_gib, memory_items, phase_totals
from sara.sizing.outlines import Outline, outline
from sara.sizing.shapes import ModelShape, find_shape

__all__ = [
    "MemoryItem",
    "ModelShape",
    "Outline",
    "find_shape",
    "gpu_memory_gib",
    "memory_items",
    "outline",
    "phase_totals",
]
