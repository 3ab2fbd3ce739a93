"""A simulated population: prompts as success rates, rollouts as coin flips with token counts.

Owns what the simulator and the tests draw from: `sara.collection.RolloutSource`s that need no model. Their
rollouts come from `rollout_seeds`, so strategies that open the same prompt see the same rewards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri

from sara.allocation import MISSING, Draws, Outcomes
from sara.seeds import rollout_seeds, step_rng, unit_interval

_REWARD, _LENGTH, _MISSING = 0, 1, 2  # streams of a rollout's seed


class PopulationSource:
    """Draws Bernoulli rewards from a table of success rates.

    success_rates  (P,) float64 in [0, 1]; replace it between steps to move the policy
    tokens_right   mean tokens of a right rollout, (P,) or a scalar, at least 1
    tokens_wrong   the same of a wrong one
    missing_rate   share of draws that come back unscored, in [0, 1]
    tail           0: a length is uniform between half and one and a half times its mean; else it is log-normal with
                   that mean, and this is the standard deviation of its logarithm
    """

    def __init__(
        self,
        success_rates: ArrayLike,
        run_seed: int,
        tokens_right: ArrayLike = 1.0,
        tokens_wrong: ArrayLike = 1.0,
        missing_rate: float = 0.0,
        tail: float = 0.0,
    ) -> None:
        self.run_seed = int(run_seed)
        self.tail = float(_table("tail", tail, 0, np.inf))
        self.success_rates = _table("success_rates", success_rates, 0, 1)
        self.tokens_right = np.broadcast_to(_table("tokens_right", tokens_right, 1, np.inf), self.success_rates.shape)
        self.tokens_wrong = np.broadcast_to(_table("tokens_wrong", tokens_wrong, 1, np.inf), self.success_rates.shape)
        self.missing_rate = float(_table("missing_rate", missing_rate, 0, 1))

    @classmethod
    def from_beta(cls, num_prompts: int, alpha: float, beta: float, run_seed: int, **options) -> PopulationSource:
        """Success rates drawn from Beta(alpha, beta) with `run_seed`."""
        return cls(step_rng(run_seed, 0, "population: rates").beta(alpha, beta, num_prompts), run_seed, **options)

    def rates(self, step: int, prompts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Success rates of `prompts` (N,) under the policy of `step`, (N,) float64."""
        return self.success_rates[prompts]

    def draw(self, step: int, draws: Draws) -> Outcomes:
        seeds = rollout_seeds(self.run_seed, step, draws.prompts, draws.slots, draws.attempts)
        is_right = unit_interval(seeds, _REWARD) < self.rates(step, draws.prompts)
        is_missing = unit_interval(seeds, _MISSING) < self.missing_rate
        mean = np.where(is_right, self.tokens_right[draws.prompts], self.tokens_wrong[draws.prompts])
        tokens = np.rint(mean * self._relative_lengths(unit_interval(seeds, _LENGTH)))
        rewards = np.where(is_missing, MISSING, is_right).astype(np.int8)
        return Outcomes(rewards, np.maximum(tokens, 1).astype(np.int64))

    def _relative_lengths(self, chance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lengths (N,) with mean 1, by inversion of uniform numbers (N,)."""
        if not self.tail:
            return 0.5 + chance
        return np.exp(self.tail * ndtri(np.maximum(chance, 2.0**-54)) - self.tail**2 / 2)


class LearningPopulation(PopulationSource):
    """A population whose success rates rise as a policy learns.

    drift       rise of every prompt's log-odds of success in the first step
    gain        further rise of a prompt's log-odds each time it is trained on
    fade_steps  steps over which the drift falls to 1/e of what it was; None: it never fades

    `success_rates` is where they start. A rate of exactly 0 or 1 never moves: beyond reach, or known for good. Rates
    are worked out for the prompts that are drawn, so a step costs nothing for all the others.
    """

    def __init__(
        self,
        success_rates: ArrayLike,
        run_seed: int,
        drift: float = 0.0,
        gain: float = 0.0,
        fade_steps: float | None = None,
        **options,
    ) -> None:
        super().__init__(success_rates, run_seed, **options)
        self.drift, self.gain, self.fade_steps = float(drift), float(gain), fade_steps
        self.times_trained = np.zeros(self.success_rates.size, dtype=np.int32)

    def rates(self, step: int, prompts: NDArray[np.int64]) -> NDArray[np.float64]:
        start = super().rates(step, prompts)
        if not (self.drift or self.gain):
            return start
        return expit(logit(start) + self._drift_until(step) + self.gain * self.times_trained[prompts])

    def learn(self, trained: NDArray[np.int64]) -> None:
        """Take one policy update on the groups of `trained` (G,), all different."""
        self.times_trained[trained] += 1

    def _drift_until(self, step: int) -> float:
        """Rise of the log-odds over the updates before `step`: the sum of the faded drifts."""
        if self.fade_steps is None:
            return self.drift * (step - 1)
        kept = np.exp(-1 / self.fade_steps)  # of the drift, from one step to the next
        return float(self.drift * (1 - kept ** (step - 1)) / (1 - kept))


def _table(name: str, values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if not ((table >= low) & (table <= high)).all():
        raise ValueError(f"{name} from {table.min()} to {table.max()}; expected {low} to {high}")
    return table
