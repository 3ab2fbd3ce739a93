"""How many prompts to open at once: rounds against rollouts, by the allocator's `margin`.

    python benchmarks/margin.py [--margins -1 -0.5 0 0.5 1] [--steps 1000]

Steps of B = 16 groups of k = 8 over rates from Beta(0.1, 0.3), uniform selection, everything else as default; DS first.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from sara.allocation import Allocator, DynamicSamplingAllocator, Limits, SequentialAllocator
from sara.collection import collect
from sara.selection import ShuffleSelector
from sara.simulation.source import PopulationSource

B, K, POOL, SEED = 16, 8, 50_000, 0


def play(allocator: Allocator, steps: int) -> list[float]:
    """Rollouts for a trained group, rounds a step, percent of the steps that took 2 to 4, and surplus groups a step."""
    selector, source = ShuffleSelector(POOL, SEED), PopulationSource.from_beta(POOL, 0.1, 0.3, SEED)
    names = ("rollouts/generated", "groups/trained", "rounds", "groups/surplus")
    counts = np.empty((steps, len(names)))
    for step in range(steps):
        metrics = collect(step + 1, selector, allocator, source, Limits(target=B), SEED).metrics()
        counts[step] = [metrics[name] for name in names]
    rollouts, trained, rounds, surplus = counts.T
    is_few = (rounds >= 2) & (rounds <= 4)
    return [rollouts.sum() / trained.sum(), rounds.mean(), 100 * is_few.mean(), surplus.mean()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--margins", type=float, nargs="+", default=[-1, -0.5, 0, 0.5, 1])
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    table = Table(title=f"{options.steps} steps of {B} groups of {K}")
    for head in ("margin", "rollouts a group", "of DS", "rounds", "steps of 2 to 4 rounds", "surplus groups"):
        table.add_column(head, justify="right")
    rows = {"DS": play(DynamicSamplingAllocator(K, max_gen_batches=None), options.steps)}
    rows |= {f"{margin:g}": play(SequentialAllocator(K, margin=margin), options.steps) for margin in options.margins}
    of_ds = rows["DS"][0]
    for name, (cost, rounds, few, surplus) in rows.items():
        table.add_row(name, f"{cost:.1f}", f"{cost / of_ds:.2f}", f"{rounds:.1f}", f"{few:.0f}%", f"{surplus:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
