"""An example log, made from the simulated population: `python -m sara.replay.example_log example.jsonl`.

Owns that file, which the documentation replays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from sara.allocation import Draws
from sara.engines.population import PopulationSource


def write_example_log(
    path: Path, prompts: int = 1000, steps: int = 80, groups: int = 50, k: int = 8, seed: int = 0
) -> None:
    """A JSONL log of uniform training: `steps` steps of `groups` prompts, `k` rollouts each, in epochs over `prompts`.

    Success rates are drawn from Beta(0.1, 0.3) and stay; wrong rollouts are twice as long as right ones.
    """
    source = PopulationSource.from_beta(prompts, 0.1, 0.3, seed, tokens_right=300, tokens_wrong=600)
    with path.open("w", encoding="utf-8") as file:
        for step in range(steps):
            opened = (np.arange(groups) + step * groups) % prompts
            draws = Draws(np.repeat(opened, k), np.tile(np.arange(k), groups), np.zeros(groups * k, dtype=np.int64))
            outcomes = source.draw(step, draws)
            columns = (draws.prompts.tolist(), outcomes.rewards.tolist(), outcomes.tokens.tolist())
            for prompt, reward, tokens in zip(*columns, strict=True):
                row = {"step": step, "prompt_id": prompt, "reward": reward, "tokens": tokens}
                file.write(json.dumps(row) + "\n")


def main(
    path: Annotated[Path, typer.Argument(help="JSONL file to write")],
    prompts: int = 1000,
    steps: int = 80,
    groups: int = 50,
    k: int = 8,
    seed: int = 0,
) -> None:
    """Write an example log of uniform training on a simulated population."""
    write_example_log(path, prompts, steps, groups, k, seed)


if __name__ == "__main__":
    typer.run(main)
