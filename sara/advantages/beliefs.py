"""What is believed of each prompt's success rate before a step: a baseline that owes nothing to its rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sara.advantages.base import Array


class RateBeliefs:
    """A Beta posterior over the success rate of each prompt, from the steps before, fading as the policy moves.

    num_prompts     P
    alpha0, beta0   the prior of every prompt
    memory          share of the counts kept from one step to the next, in [0, 1]

    Every scored rollout counts, of groups that were trained on and of those that were not: outcomes alone decide
    what is drawn, so leaving some out would bias the rate.
    """

    def __init__(self, num_prompts: int, alpha0: float, beta0: float, memory: float = 0.9) -> None:
        self.alpha0, self.beta0, self.memory = alpha0, beta0, memory
        self.successes, self.failures = np.zeros(num_prompts), np.zeros(num_prompts)  # (P,)

    def rates(self, prompts: Array) -> Array:
        """(N,) posterior means of these prompts."""
        alpha, beta = self.alpha0 + self.successes[prompts], self.beta0 + self.failures[prompts]
        return alpha / (alpha + beta)

    def observe(self, prompts: Array, n: Array, s: Array) -> None:
        """Take in a step: `s` of `n` scored rollouts of each of these (different) prompts were right, all (O,)."""
        self.successes *= self.memory
        self.failures *= self.memory
        self.successes[prompts] += s
        self.failures[prompts] += n - s

    def state_dict(self) -> dict[str, Any]:
        return {"successes": self.successes.copy(), "failures": self.failures.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.successes = np.array(state["successes"], dtype=np.float64)
        self.failures = np.array(state["failures"], dtype=np.float64)
