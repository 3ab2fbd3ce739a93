"""Held-out evaluation: avg@k, pass@k and maj@k with bootstrap intervals over prompts, whole and in parts.

Owns the estimators. The same evaluation seed gives every policy the same random numbers, so that
differences between policies are less noisy than the intervals of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln

from sara.allocation import MISSING, Draws
from sara.config import ExperimentConfig
from sara.datasets.base import Problem
from sara.engines.base import Sampling
from sara.rollouts import Rollout, RolloutSampler

Part = Literal["subject", "level"]


@dataclass(frozen=True)
class Estimate:
    """A mean over prompts with its 95% percentile-bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What a policy scored.

    problems     the P problems
    successes    (P,) int64 right rollouts of each prompt
    scored       (P,) int64 rollouts of each prompt that could be scored
    votes        (P,) float64 chance that the answer which most of a prompt's rollouts give is right
    avg_at_k     mean success rate
    pass_at_k    mean chance that one of k rollouts is right
    maj_at_k     mean of the votes
    pass_at      n -> mean chance that one of n < k rollouts is right
    by_part      "subject" and "level" -> its name -> mean success rate over its prompts
    rollouts     every graded rollout, for artifacts
    """

    k: int
    problems: Sequence[Problem]
    successes: np.ndarray
    scored: np.ndarray
    votes: np.ndarray
    avg_at_k: Estimate
    pass_at_k: Estimate
    maj_at_k: Estimate
    pass_at: dict[int, Estimate]
    by_part: dict[Part, dict[str, Estimate]]
    rollouts: list[Rollout]

    @property
    def rates(self) -> np.ndarray:
        """(P,) success rate of each prompt; 0 where none of its rollouts could be scored."""
        return self.successes / np.maximum(self.scored, 1)

    def metrics(self) -> dict[str, float]:
        """Scores under the names of the tracking contract."""
        named = {"accuracy": self.avg_at_k, "pass_at_k": self.pass_at_k, "maj_at_k": self.maj_at_k}
        named |= {f"pass_at_{n}": estimate for n, estimate in self.pass_at.items()}
        for part, estimates in self.by_part.items():
            named |= {f"{part}/{_metric_name(name)}": estimate for name, estimate in estimates.items()}
        scores = {
            f"eval/{name}{end}": value
            for name, estimate in named.items()
            for end, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high))
        }
        return scores | self._response_metrics()

    def _response_metrics(self) -> dict[str, float]:
        tokens = np.array([len(rollout.completion.token_ids) for rollout in self.rollouts])
        is_right = np.array([rollout.reward == 1 for rollout in self.rollouts])
        is_cut = [rollout.completion.finish_reason == "length" for rollout in self.rollouts]
        has_answer = [self.problems[rollout.prompt].answer(rollout.text) is not None for rollout in self.rollouts]
        lengths = {"": tokens, "_right": tokens[is_right], "_wrong": tokens[~is_right]}
        return {
            **{f"eval/tokens_mean{end}": float(values.mean()) for end, values in lengths.items() if values.size},
            "eval/tokens_p95": float(np.percentile(tokens, 95)),
            "eval/truncated": float(np.mean(is_cut)),
            "eval/no_answer": 1.0 - float(np.mean(has_answer)),
            "eval/missing": float(self.k * len(self.scored) - self.scored.sum()),
        }


def _metric_name(part: str) -> str:
    """As MLflow takes it: without signs that it refuses."""
    return "".join(character if character.isalnum() or character in " _-." else "-" for character in part)


def evaluation_sampling(config: ExperimentConfig) -> Sampling:
    """How the rollouts of an evaluation are sampled: as those of training where the evaluation does not say."""
    temperature, longest = config.evaluation.temperature, config.evaluation.max_new_tokens
    return Sampling(
        config.engine.temperature if temperature is None else temperature,
        config.engine.max_new_tokens if longest is None else longest,
    )


def evaluate(sampler: RolloutSampler, k: int, bootstrap: int, seed: int, further_n: Sequence[int] = ()) -> Evaluation:
    """Draw k rollouts for every prompt of the sampler's pool and score them.

    k           rollouts for each prompt
    bootstrap   bootstrap draws behind the intervals
    seed        seed of the bootstrap
    further_n   further n for pass@n, each at most k
    Raises ValueError if no rollout could be scored, or for an n above k.
    """
    count = len(sampler.pool)
    prompts = np.repeat(np.arange(count), k)  # (P * k,)
    slots = np.tile(np.arange(k), count)
    rewards = sampler.draw(0, Draws(prompts, slots, np.zeros_like(slots))).rewards.reshape(count, k)
    return grade(sampler.pool.problems, rewards, sampler.take(range(count)), bootstrap, seed, further_n)


def grade(
    problems: Sequence[Problem],
    rewards: np.ndarray,
    rollouts: list[Rollout],
    bootstrap: int,
    seed: int,
    further_n: Sequence[int] = (),
) -> Evaluation:
    """The scores of rollouts that were drawn.

    rewards    (P, k) 1 right, 0 wrong, MISSING
    rollouts   those that could be scored, with their texts
    """
    k = rewards.shape[1]
    scored = (rewards != MISSING).sum(axis=1)  # (P,)
    successes = (rewards == 1).sum(axis=1)  # (P,)
    answered = scored > 0
    if not answered.any():
        raise ValueError("evaluation: none of the rollouts could be scored; check the references of the data set")
    if any(n > k for n in further_n):
        raise ValueError(f"pass@{max(further_n)}: only {k} rollouts of each prompt were drawn; expected at most {k}")
    n, s = scored[answered], successes[answered]
    votes = _votes(problems, rollouts)  # (P,)
    rng = np.random.default_rng(seed)

    def passes(wanted: int) -> Estimate:
        return bootstrap_mean(pass_at_k(n, s, np.minimum(wanted, n)), bootstrap, rng)

    return Evaluation(
        k=k,
        problems=problems,
        successes=successes,
        scored=scored,
        votes=votes,
        avg_at_k=bootstrap_mean(s / n, bootstrap, rng),
        pass_at_k=passes(k),
        maj_at_k=bootstrap_mean(votes[answered], bootstrap, rng),
        pass_at={wanted: passes(wanted) for wanted in further_n},
        by_part=_by_part([p for p, is_in in zip(problems, answered, strict=True) if is_in], s / n, bootstrap, rng),
        rollouts=rollouts,
    )


def _by_part(
    problems: Sequence[Problem], rates: np.ndarray, bootstrap: int, rng: np.random.Generator
) -> dict[Part, dict[str, Estimate]]:
    """Mean success rate of each subject and level that the data know, by name; rates (P,)."""
    parts: dict[Part, Callable[[Problem], str | int | None]] = {
        "subject": lambda problem: problem.subject,
        "level": lambda problem: problem.level,
    }
    found = {}
    for part, value_of in parts.items():
        values = [value_of(problem) for problem in problems]
        names = sorted({value for value in values if value is not None}, key=lambda value: (str(type(value)), value))
        found[part] = {
            str(name): bootstrap_mean(rates[[value == name for value in values]], bootstrap, rng) for name in names
        }
    return found


def _votes(problems: Sequence[Problem], rollouts: Sequence[Rollout]) -> np.ndarray:
    """(P,) chance that each prompt's majority is right."""
    rights = np.zeros(len(problems), dtype=np.int64)
    wrongs: list[list[str]] = [[] for _ in problems]
    for rollout in rollouts:
        answer = None if rollout.reward == 1 else problems[rollout.prompt].answer(rollout.text)
        rights[rollout.prompt] += rollout.reward == 1
        if answer is not None:
            wrongs[rollout.prompt].append(answer)
    return np.array([majority_is_right(n, w, p.is_same) for n, w, p in zip(rights, wrongs, problems, strict=True)])


def majority_is_right(rights: int, wrongs: Sequence[str], is_same: Callable[[str, str], bool]) -> float:
    """Chance that the most frequent answer is right, where one of those that tie is taken at random.

    rights    how many answers are right: one class, however they are written
    wrongs    the other answers, which `is_same` puts into classes; a response without an answer has no vote
    returns   1, 1/m where the right answer is one of m that tie, else 0
    """
    if not rights or rights > len(wrongs):  # how the wrong ones fall into classes does not matter
        return float(rights > 0)
    largest = Counter(_classes(wrongs, is_same)).most_common()
    most = largest[0][1]
    if rights != most:
        return float(rights > most)
    return 1 / (1 + sum(count == most for _, count in largest))


def _classes(answers: Sequence[str], is_same: Callable[[str, str], bool]) -> list[str]:
    """The class of each answer, named by the first that was given of it."""
    first: dict[str, str] = {}
    for answer in answers:
        if answer not in first:
            first[answer] = next((known for known in dict.fromkeys(first.values()) if is_same(answer, known)), answer)
    return [first[answer] for answer in answers]


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
    Raises ValueError where k is larger than what was drawn.
    """
    if np.any(k > n):
        raise ValueError(f"pass@{np.max(k)}: only {np.min(n)} rollouts were drawn; expected at least as many")
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
