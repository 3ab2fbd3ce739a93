"""Arithmetic: problems in the manner of MATH that are made by code, with exact answers and worked solutions.

Eight subjects in five levels. To add a subject: a module beside this with `draw`, and a line in SUBJECTS. The
side of a problem is decided by a hash of its text, so training and held-out problems never meet.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sara.datasets.arithmetic import (
    counting,
    fractions,
    geometry,
    linear,
    number_theory,
    percent,
    quadratics,
    sequences,
)
from sara.datasets.arithmetic.base import Draw, Worked
from sara.datasets.base import Dataset, Problem, Split
from sara.datasets.boxed import FIELDS, boxed_problem, read_boxed, reference_fault
from sara.datasets.sides import side_of

if TYPE_CHECKING:
    from sara.config import DataConfig

SUBJECTS: dict[str, Draw] = {
    "Counting": counting.draw,
    "Fractions": fractions.draw,
    "Geometry": geometry.draw,
    "Linear equations": linear.draw,
    "Number theory": number_theory.draw,
    "Percent": percent.draw,
    "Quadratic equations": quadratics.draw,
    "Sequences": sequences.draw,
}
"""Name of a subject -> its generator."""

MAX_LEVEL = 5
_MAX_FRUITLESS_DRAWS = 2_000


def generate_arithmetic(
    count: int, seed: int, split: Split, subjects: Sequence[str] = (), levels: tuple[int, int] = (1, MAX_LEVEL)
) -> list[Problem]:
    """Draw distinct problems of one side, in turn from every level of every subject, in a seeded order.

    count      how many problems
    subjects   names in SUBJECTS; all of them where there is none
    levels     easiest and hardest, both included
    Raises ValueError for an unknown subject or level, and if there are not so many distinct problems.
    """
    for subject in subjects:
        if subject not in SUBJECTS:
            raise ValueError(f"data.subjects: {subject!r} is unknown; expected of {', '.join(SUBJECTS)}")
    if not 1 <= levels[0] <= levels[1] <= MAX_LEVEL:
        raise ValueError(f"data.levels = {list(levels)}; expected [easiest, hardest] in 1..{MAX_LEVEL}")
    rng = random.Random(f"arithmetic/{split}/{seed}")
    kinds = [(s, level) for level in range(levels[0], levels[1] + 1) for s in subjects or SUBJECTS]
    taken: dict[str, Problem] = {}
    while len(taken) < count and kinds:
        kinds = [kind for kind in kinds if len(taken) < count and _take_one(rng, *kind, split, taken)]
    if len(taken) < count:
        raise ValueError(
            f"arithmetic: only {len(taken)} distinct {split} problems were found for these subjects and levels; "
            f"expected {count}. Ask for fewer or allow more."
        )
    problems = list(taken.values())
    rng.shuffle(problems)
    return problems


def _take_one(rng: random.Random, subject: str, level: int, split: Split, taken: dict[str, Problem]) -> bool:
    """Add one problem that is new and of this side; False where none was found."""
    for _ in range(_MAX_FRUITLESS_DRAWS):
        worked = SUBJECTS[subject](rng, level)
        if worked.text not in taken and side_of(worked.text) == split:
            taken[worked.text] = _problem(worked, subject, level)
            return True
    return False


def _problem(worked: Worked, subject: str, level: int) -> Problem:
    name = subject.lower().replace(" ", "-")
    digest = hashlib.sha256(worked.text.encode()).hexdigest()[:10]
    problem_id = f"arithmetic/{name}/{level}/{digest}"
    return boxed_problem(problem_id, worked.text, worked.answer, subject, level, worked.solution)


def _generate(config: DataConfig, split: Split) -> list[Problem]:
    return generate_arithmetic(config.generated_size(split), config.seed, split, config.subjects, config.levels)


DATASET = Dataset(
    title=f"generated: {len(SUBJECTS)} subjects in {MAX_LEVEL} levels, with worked solutions",
    fields=FIELDS,
    read=read_boxed,
    generate=_generate,
    fault=reference_fault,
)
