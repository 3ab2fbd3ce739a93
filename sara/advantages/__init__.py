"""Advantage estimators: one contract, `sara.advantages.base`; one file for each idea."""

from __future__ import annotations

from difflib import get_close_matches

from sara.advantages.base import Discounts, Estimates, Estimator, ScoredRollouts
from sara.advantages.beliefs import RateBeliefs
from sara.advantages.dr_grpo import DR_GRPO
from sara.advantages.groups import is_effective
from sara.advantages.grpo import GRPO
from sara.advantages.ppo import PPO
from sara.advantages.reinforce import REINFORCE_PP, REINFORCE_PP_BASELINE
from sara.advantages.rloo import RLOO

__all__ = ["ADVANTAGES", "Discounts", "Estimates", "Estimator", "RateBeliefs", "ScoredRollouts", "get_estimator"]
__all__ += ["is_effective"]

ADVANTAGES: dict[str, Estimator] = {
    "grpo": GRPO,
    "dr_grpo": DR_GRPO,
    "rloo": RLOO,
    "reinforce++": REINFORCE_PP,
    "reinforce++-baseline": REINFORCE_PP_BASELINE,
    "ppo": PPO,
}


def get_estimator(name: str) -> Estimator:
    """The estimator called `name`; ValueError, with the known name that is near if one is, if there is none."""
    if name in ADVANTAGES:
        return ADVANTAGES[name]
    near = get_close_matches(str(name).lower(), ADVANTAGES, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"algorithm {name!r} is unknown; {hint}Known: {', '.join(ADVANTAGES)}")
