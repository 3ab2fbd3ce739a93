"""Held-out evaluation: avg@k and pass@k with bootstrap intervals over prompts.

Owns the estimators. The same evaluation seed gives every policy the same random numbers, so that
differences between policies are less noisy than the intervals of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sara.allocation import MISSING, Draws
from sara.rollouts import Rollout, RolloutSampler


@dataclass(frozen=True)
class Estimate:
    """A mean over prompts with its 95% percentile-bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What a policy scored.

    successes    (P,) int64 right rollouts of each prompt
    scored       (P,) int64 rollouts of each prompt that could be scored
    avg_at_k     mean success rate
    pass_at_k    mean chance that one of k rollouts is right
    rollouts     every graded rollout, for artifacts
    """

    k: int
    successes: np.ndarray
    scored: np.ndarray
    avg_at_k: Estimate
    pass_at_k: Estimate
    rollouts: list[Rollout]

    @property
    def rates(self) -> np.ndarray:
        """(P,) success rate of each prompt; 0 where none of its rollouts could be scored."""
        return self.successes / np.maximum(self.scored, 1)

    def metrics(self) -> dict[str, float]:
        """Scores under the names of the tracking contract."""
        tokens = [len(rollout.completion.token_ids) for rollout in self.rollouts]
        return {
            "eval/accuracy": self.avg_at_k.value,
            "eval/accuracy_low": self.avg_at_k.low,
            "eval/accuracy_high": self.avg_at_k.high,
            "eval/pass_at_k": self.pass_at_k.value,
            "eval/pass_at_k_low": self.pass_at_k.low,
            "eval/pass_at_k_high": self.pass_at_k.high,
            "eval/tokens_mean": float(np.mean(tokens)) if tokens else 0.0,
            "eval/missing": float(self.k * len(self.scored) - self.scored.sum()),
        }


def evaluate(sampler: RolloutSampler, k: int, bootstrap: int, seed: int) -> Evaluation:
    """Draw k rollouts for every prompt of the sampler's pool and score them.

    k           rollouts for each prompt
    bootstrap   bootstrap draws behind the intervals
    seed        seed of the bootstrap
    Raises ValueError if no rollout could be scored.
    """
    count = len(sampler.pool)
    prompts = np.repeat(np.arange(count), k)  # (P * k,)
    slots = np.tile(np.arange(k), count)
    rewards = sampler.draw(0, Draws(prompts, slots, np.zeros_like(slots))).rewards.reshape(count, k)
    scored = (rewards != MISSING).sum(axis=1)  # (P,)
    successes = (rewards == 1).sum(axis=1)  # (P,)
    if not scored.any():
        raise ValueError("evaluation: none of the rollouts could be scored; check the references of the data set")
    answered = scored > 0
    rates = successes[answered] / scored[answered]
    passes = pass_at_k(scored[answered], successes[answered], np.minimum(k, scored[answered]))
    rng = np.random.default_rng(seed)
    return Evaluation(
        k=k,
        successes=successes,
        scored=scored,
        avg_at_k=bootstrap_mean(rates, bootstrap, rng),
        pass_at_k=bootstrap_mean(passes, bootstrap, rng),
        rollouts=sampler.take(range(count)),
    )


def paired_gain(rates: np.ndarray, base_rates: np.ndarray, bootstrap: int, seed: int) -> Estimate:
    """Mean difference of two policies on the same prompts, with its bootstrap interval over prompts.

    rates, base_rates   (P,) success rates of each prompt, in the same order
    The differences vary much less than the rates, so this says more than two intervals side by side.
    """
    return bootstrap_mean(rates - base_rates, bootstrap, np.random.default_rng(seed))


def pass_at_k(n: np.ndarray, successes: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Unbiased pass@k of each prompt: 1 - C(n - s, k) / C(n, k) (Chen et al. 2021, eq. 1).

    n, successes, k   (P,) integers, k <= n
    returns           (P,) float64
    """
    failures = n - successes
    enough = failures >= k
    safe = np.where(enough, failures, k)
    # Paired so that without a success each pair cancels exactly, and the result is 0 and not -1e-15.
    log_ratio = (gammaln(safe + 1) - gammaln(n + 1)) - (gammaln(safe - k + 1) - gammaln(n - k + 1))
    return np.where(enough, 1 - np.exp(log_ratio), 1.0)


def bootstrap_mean(values: np.ndarray, draws: int, rng: np.random.Generator) -> Estimate:
    """Mean of values (P,) with the 2.5% and 97.5% percentiles of its bootstrap distribution over P."""
    counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=draws)  # (draws, P)
    means = counts @ values / len(values)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(np.mean(values)), float(low), float(high))
