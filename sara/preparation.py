"""The problems of an experiment as its model will be asked them: read, apart from each other, and fit for the model.

Owns what `sara train`, `sara evaluate` and the commands that only look have in common. Writes nothing but the sets that
are kept for other runs, where it is given a folder for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sara.config import ExperimentConfig
from sara.datasets import Side, load_apart, load_side
from sara.datasets.selecting import LONG
from sara.evaluation import evaluation_sampling
from sara.learner.setup import require_room, require_same_vocabulary, require_trainable
from sara.models import Reader
from sara.prompts import Prompt, encode_prompts, write_prompts


@dataclass(frozen=True)
class Problems:
    """Both sides as they are used; without a training side where nothing is trained."""

    train: Side | None
    heldout: Side

    @property
    def sides(self) -> dict[str, Side]:
        """Those that are there, by name."""
        return {name: side for name, side in (("train", self.train), ("heldout", self.heldout)) if side is not None}


def prepare_problems(
    config: ExperimentConfig, reader: Reader, is_training: bool = True, cache: Path | None = None
) -> Problems:
    """Read the problems, and leave out of the training ones those that are held out too or too long.

    cache   folder of prepared sets that runs share; without one nothing is written
    Raises ValueError if the data cannot be used: a faulty file, a public set that cannot be read, fewer problems than
    a step wants groups, a prompt that the model cannot take, or what `sara.learner.setup` refuses.
    """
    if is_training:
        require_trainable(config)
    heldout = load_side(config.data, "heldout", cache)
    encode_prompts(reader, heldout.problems, evaluation_sampling(config).max_new_tokens, config.prompt)
    if not is_training:
        return Problems(None, heldout)
    train, prompts = _short_enough(load_apart(config.data, heldout.problems, cache), config, reader)
    require_same_vocabulary(config, reader)
    count, wanted = len(train.problems), config.allocation.groups_per_step
    if count < wanted:
        why = f" ({train.summary()})" if train.left_out else ""
        raise ValueError(
            f"allocation.groups_per_step = {wanted}; expected at most {count}, the number of training problems{why}"
        )
    require_room(config, [prompt.ids for prompt in prompts])
    return Problems(train, heldout)


def _short_enough(side: Side, config: ExperimentConfig, reader: Reader) -> tuple[Side, list[Prompt]]:
    """Without the problems whose prompt is longer than `prompt.max_tokens`; and the prompts, which fit the model."""
    longest = config.prompt.max_tokens
    if longest is not None:
        lengths = [len(prompt.ids) for prompt in write_prompts(reader.tokenizer, side.problems, config.prompt)]
        too_long = {p.id: n for p, n in zip(side.problems, lengths, strict=True) if n > longest}
        side = side.keep(LONG, lambda problem: f"{too_long[problem.id]} tokens" if problem.id in too_long else None)
    return side, encode_prompts(reader, side.problems, config.engine.max_new_tokens, config.prompt)
