"""The training loop: select, collect, advantages, update, sync.

Owns a training run's state and its one step. Returns numbers; recording them is `tasks`'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sara.advantages import RateBeliefs
from sara.collection import SCHEDULES, Collection
from sara.config import RunConfig
from sara.datasets.base import Problem
from sara.engines import make_engine
from sara.engines.base import Sampling
from sara.evaluation import Evaluation, evaluate, evaluation_sampling
from sara.learner.adapters import has_adapters
from sara.learner.experience import make_examples
from sara.learner.setup import make_learner, require_trainable
from sara.models import Policy, save_policy
from sara.random_state import random_state, restore_random_state
from sara.rollouts import PromptPool, Rollout, RolloutSampler
from sara.seeds import step_rng
from sara.strategies import configured_limits, configured_strategy


@dataclass(frozen=True)
class StepReport:
    """What one step did.

    step         1, 2, ...
    collection   what was drawn and what became of it
    metrics      name -> value, under the names of the tracking contract
    """

    step: int
    collection: Collection
    metrics: dict[str, float]


class Trainer:
    """One training run: a policy, a pool of prompts and a strategy."""

    def __init__(self, config: RunConfig, policy: Policy, train: Sequence[Problem], heldout: Sequence[Problem]):
        self.config = config
        self.policy = policy
        self.step_count = 0
        self.clock = Stopwatch()
        self.cumulative = {"cumulative/rollouts": 0.0, "cumulative/tokens": 0.0}
        require_trainable(config, policy.model)
        self.engine = make_engine(config.engine, policy)
        with ExitStack() as unless_made:  # what it holds, a process or a GPU, outlives this one otherwise
            unless_made.callback(self.engine.close)
            self._set_up(policy, train, heldout)
            unless_made.pop_all()

    def _set_up(self, policy: Policy, train: Sequence[Problem], heldout: Sequence[Problem]) -> None:
        config = self.config
        sampling = Sampling(config.engine.temperature, config.engine.max_new_tokens)
        evaluation = evaluation_sampling(config)
        pool = PromptPool(policy, train, sampling.max_new_tokens, config.prompt)
        heldout_pool = PromptPool(policy, heldout, evaluation.max_new_tokens, config.prompt)
        self.sampler = RolloutSampler(self.engine, policy.tokenizer, pool, sampling, config.seed)
        self.heldout = RolloutSampler(self.engine, policy.tokenizer, heldout_pool, evaluation, config.evaluation.seed)
        self.selector, self.allocator = configured_strategy(
            config.strategy, len(pool), config.seed, config.allocation, config.selection
        )
        self.limits = configured_limits(config.allocation)
        self.collect = SCHEDULES[config.allocation.schedule]
        self.learner = make_learner(config, policy, self.engine, pool)
        self.beliefs = RateBeliefs(len(pool), config.allocation.alpha0, config.allocation.beta0)

    def step(self) -> StepReport:
        """One optimizer cycle: collect, score, update, sync weights.

        Interrupted while `is_collecting`, it has changed no weight: `rewind` to the `position` before it.
        """
        self.step_count += 1
        clock = self.clock = Stopwatch()
        with clock.phase("collect"):
            collection = self.collect(
                self.step_count,
                self.selector,
                self.allocator,
                self.sampler,
                self.limits,
                self.config.seed,
                max_redraws=self.config.allocation.max_redraws,
            )
            rollouts = self.sampler.take(collection.trained.tolist())
        with clock.phase("update"):
            self.engine.release_memory()
            examples, figures = make_examples(
                rollouts, self.learner, self.sampler.sampling.max_new_tokens, self._beliefs_of(rollouts)
            )
            update = self.learner.update(examples, step_rng(self.config.seed, self.step_count, "minibatches"))
            seen = collection.considered
            self.beliefs.observe(seen.prompts, seen.n, seen.s)
        with clock.phase("sync"):
            self.engine.sync_weights(self.learner.full_weights())
        update |= figures if update["updates"] else {}
        return StepReport(self.step_count, collection, self._metrics(collection, update, clock))

    def close(self) -> None:
        """Release what the engine holds."""
        self.engine.close()

    def evaluate(self) -> Evaluation:
        """Score the current policy on the held-out prompts."""
        settings = self.config.evaluation
        return evaluate(self.heldout, settings.k, settings.bootstrap, settings.seed, settings.further_n)

    def save_model(self, folder: Path) -> None:
        """Write the policy as a plain model, adapters added in."""
        model = self.policy.model
        save_policy(self.policy, folder, dict(self.learner.full_weights()) if has_adapters(model) else None)

    def _beliefs_of(self, rollouts: list[Rollout]) -> np.ndarray | None:
        """(N,) what is believed of each rollout's prompt, if rewards are measured against it."""
        if self.config.learner.baseline != "belief":
            return None
        return self.beliefs.rates(np.array([rollout.prompt for rollout in rollouts], dtype=np.int64))

    @property
    def is_collecting(self) -> bool:
        """Whether a step is under way that has not begun to change the weights."""
        return self.clock.current == "collect"

    @property
    def is_torn(self) -> bool:
        """Whether a step has begun to change the weights and has not ended: what is in memory must not be saved."""
        return self.clock.current not in (None, "collect")

    def position(self) -> dict[str, Any]:
        """Where the run is, weights and optimizer apart."""
        return {
            "step": self.step_count,
            "cumulative": dict(self.cumulative),
            "selector": self.selector.state_dict(),
            "allocator": self.allocator.state_dict(),
            "beliefs": self.beliefs.state_dict(),
        }

    def rewind(self, position: Mapping[str, Any]) -> None:
        """Go back to a `position`; rollouts drawn since then are dropped."""
        self.clock = Stopwatch()
        self.step_count = position["step"]
        self.cumulative = dict(position["cumulative"])
        self.selector.load_state_dict(position["selector"])
        self.allocator.load_state_dict(position["allocator"])
        self.beliefs.load_state_dict(position["beliefs"])
        self.sampler.take([])

    def state_dict(self) -> dict[str, Any]:
        """Everything that lasts between two steps, but for the weights, which are the model's own."""
        return {
            "position": self.position(),
            "learner": self.learner.state_dict(),
            "policy_version": self.engine.policy_version,
            "random": random_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Go on, bit for bit, where a run with the same configuration and problems had its `state_dict` and weights."""
        self.policy.model.load_state_dict(weights)
        self.learner.load_state_dict(state["learner"])
        self.rewind(state["position"])
        self.engine.sync_weights(self.learner.full_weights())
        self.engine.policy_version = state["policy_version"]
        restore_random_state(state["random"])

    def _metrics(self, collection: Collection, update: dict[str, float], clock: Stopwatch) -> dict[str, float]:
        metrics = collection.metrics() | _reward_metrics(collection) | update | clock.metrics()
        self.cumulative["cumulative/rollouts"] += metrics["rollouts/generated"]
        self.cumulative["cumulative/tokens"] += metrics["tokens/generated"]
        return metrics | self.cumulative


def _reward_metrics(collection: Collection) -> dict[str, float]:
    """Mean rewards; how hard the trained groups were (the saturated ones are counted in hard and easy, and apart);
    and the sum of r (1 - r) over them, what the paper's bound on the gradient's norm grows with."""
    ledger = collection.ledger
    is_trained = np.isin(ledger.prompts, collection.trained)
    rates = ledger.s[is_trained] / np.maximum(ledger.n[is_trained], 1)  # (G,)
    return {
        "reward/mean": float(ledger.s.sum() / max(ledger.n.sum(), 1)),
        "reward/trained_mean": float(ledger.s[is_trained].sum() / max(ledger.n[is_trained].sum(), 1)),
        "trained/hard": float((rates < 1 / 3).sum()),
        "trained/medium": float(((rates >= 1 / 3) & (rates <= 2 / 3)).sum()),
        "trained/easy": float((rates > 2 / 3).sum()),
        "trained/all_fail": float((rates == 0).sum()),
        "trained/all_pass": float((rates == 1).sum()),
        "gradient_signal": float((rates * (1 - rates)).sum()),
    }


class Stopwatch:
    """Wall time of a step and its phases, in seconds; `current` names the phase under way, or the one that failed."""

    def __init__(self) -> None:
        self.current: str | None = None
        self._start = time.perf_counter()
        self._phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start, self.current = time.perf_counter(), name
        yield
        self.current = None
        self._phases[name] = self._phases.get(name, 0.0) + time.perf_counter() - start

    def metrics(self) -> dict[str, float]:
        """`time/<phase>_s` for each phase and `time/step_s` since the stopwatch was made."""
        phases = {f"time/{name}_s": seconds for name, seconds in self._phases.items()}
        return phases | {"time/step_s": time.perf_counter() - self._start}
