"""The contract of selectors: which prompts does a step open?

Owns `Selector` and the `Evidence` it learns from. Prompts are indices 0..P-1 into the pool. Never draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Evidence(NamedTuple):
    """What a step saw of each prompt it opened.

    prompts  (O,) int64, all different
    n, s     (O,) int64, rollouts scored and successes; n = 0 says nothing
    p_eff    (O,) float64, the chance that the group would be mixed at k: 1 if it is, 0 if saturated at k
    """

    prompts: NDArray[np.int64]
    n: NDArray[np.int64]
    s: NDArray[np.int64]
    p_eff: NDArray[np.float64]


class Selector(ABC):
    """Hands out prompts, none twice in a step; learns when the step ends."""

    @abstractmethod
    def begin_step(self, step: int, opens_at_least: int) -> None:
        """Start a step that opens `opens_at_least` prompts or more."""

    @abstractmethod
    def select(self, count: int) -> NDArray[np.int64]:
        """Up to `count` further prompts, (C,) int64, best first; fewer only when the pool is exhausted."""

    def give_back(self, count: int) -> None:
        """Take back the last `count` prompts handed out in this step: it goes on as if they had not been asked for.

        However a step splits what it asks for, it is handed the same prompts in the same order; with this, what
        the next step is handed does not depend on how far ahead this one reached.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no prompts back; the schedule 'stream' needs it")

    @abstractmethod
    def end_step(self, evidence: Evidence) -> None:
        """Learn from what the opened prompts did."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything that lasts, also in the middle of a step."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`. Raises ValueError if it is of another pool."""
