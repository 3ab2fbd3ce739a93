"""One simulated run: a strategy on a population for some steps, through the collection loop of training.

Owns the record of a run. Never compares strategies: that is the summary's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sara.allocation import Allocator, Fate
from sara.collection import SCHEDULES, Collection
from sara.config import AllocationConfig
from sara.seeds import step_rng
from sara.selection import Selector
from sara.simulation.config import SimulateConfig
from sara.simulation.oracle import ORACLE, OracleSelector, WholeGroupsAllocator
from sara.simulation.source import LearningPopulation
from sara.simulation.timed import TimedSource
from sara.strategies import STRATEGIES, configured_limits, configured_strategy

_NO_LIMIT = 10**9  # places

METRICS = (
    "rollouts/generated",
    "tokens/generated",
    "groups/opened",
    "groups/trained",
    "groups/effective",
    "rounds",
    "decode_steps",
    "reward/trained_mean",
    "is_short",
)


@dataclass(frozen=True)
class Run:
    """What is simulated: a strategy with an allocation."""

    strategy: str
    allocation: AllocationConfig

    @property
    def is_sequential(self) -> bool:
        """Whether the settings of SARA's allocator matter to it."""
        return self.strategy in STRATEGIES and STRATEGIES[self.strategy].allocator == "sara"


@dataclass(frozen=True)
class Trace:
    """What a run did, step by step.

    steps   name -> (T,) float64 for each of `METRICS`; `is_short` is 1 where a step ended below its target,
            `reward/trained_mean` is not a number where nothing was trained, `decode_steps` where nothing is timed
    """

    run: Run
    seed: int
    steps: dict[str, NDArray[np.float64]]

    def total(self, metric: str) -> float:
        return float(self.steps[metric].sum())


def plan_runs(config: SimulateConfig) -> list[Run]:
    """Every strategy with every setting that matters to it: to all but SARA, only k and the schedule do."""
    runs = []
    for strategy in config.strategies:
        of_strategy = [Run(strategy, allocation) for allocation in config.settings()]
        if not of_strategy[0].is_sequential:
            firsts = {(run.allocation.k, run.allocation.schedule): run for run in reversed(of_strategy)}
            of_strategy = [firsts[setting] for setting in sorted(firsts)]
        runs += of_strategy
    return runs


def simulate(config: SimulateConfig, run: Run, seed: int) -> Trace:
    """Play `config.steps` steps of a run on the population of `seed`, which is the same for every run."""
    source = build_population(config, seed)
    selector, allocator = build_run(config, run, source, seed)
    limits = configured_limits(run.allocation)
    steps = {metric: np.empty(config.steps) for metric in METRICS}
    collect = SCHEDULES[run.allocation.schedule]
    is_timed = config.places is not None or run.allocation.schedule == "stream"
    drawn = TimedSource(source, config.places or _NO_LIMIT) if is_timed else source
    for step in range(1, config.steps + 1):
        start = drawn.clock if is_timed else np.nan
        collection = collect(step, selector, allocator, drawn, limits, seed, run.allocation.max_redraws)
        source.learn(collection.trained)
        for metric, value in _measure(collection, run.allocation.groups_per_step).items():
            steps[metric][step - 1] = value
        steps["decode_steps"][step - 1] = drawn.clock - start if is_timed else np.nan
    return Trace(run, seed, steps)


def build_population(config: SimulateConfig, seed: int) -> LearningPopulation:
    """The population of `seed`: its success rates are drawn from the configured mixture."""
    population = config.population
    rates = population.mixture().sample(population.prompts, step_rng(seed, 0, "population: rates"))
    return LearningPopulation(
        rates,
        seed,
        drift=population.drift,
        gain=population.gain,
        fade_steps=population.fade_steps,
        tokens_right=config.tokens.right,
        tokens_wrong=config.tokens.wrong,
        tail=config.tokens.tail,
    )


def build_run(config: SimulateConfig, run: Run, source: LearningPopulation, seed: int) -> tuple[Selector, Allocator]:
    """A fresh selector and allocator: those that training would build, or the oracle's."""
    allocation, selection = run.allocation, config.selection
    if run.strategy != ORACLE:
        return configured_strategy(run.strategy, source.success_rates.size, seed, allocation, selection)
    selector = OracleSelector(source, allocation.k, seed, selection.candidate_ratio, allocation.groups_per_step)
    return selector, WholeGroupsAllocator(allocation.k, allocation.max_gen_batches)


def _measure(collection: Collection, groups_wanted: int) -> dict[str, float]:
    ledger = collection.ledger
    is_trained = ledger.fate == Fate.COMMITTED
    num_trained = np.count_nonzero(is_trained)
    trained_rollouts = ledger.n[is_trained].sum()
    return {
        "rollouts/generated": ledger.spent,
        "tokens/generated": ledger.all_tokens.sum(),
        "groups/opened": len(ledger),
        "groups/trained": num_trained,
        "groups/effective": np.count_nonzero(is_trained & ledger.is_mixed),
        "rounds": collection.rounds,
        "reward/trained_mean": ledger.s[is_trained].sum() / trained_rollouts if num_trained else np.nan,
        "is_short": num_trained < groups_wanted,
    }
