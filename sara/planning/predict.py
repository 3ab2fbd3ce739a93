"""What a run would cost with each strategy: exact where a closed form holds, else simulated.

Success rates are taken to stay as they are. Uniform and DS have closed forms, the overshoot of DS's chunks included;
the others are played out by the simulator for some steps, and a run is that many times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from sara.config import AllocationConfig
from sara.planning.config import PlanConfig
from sara.planning.reading import Pool
from sara.planning.recommend import Advice, has_mixed_groups
from sara.simulation.config import PopulationConfig, SimulateConfig
from sara.simulation.exact import ds_costs, expected_chunks
from sara.simulation.run import Run, simulate
from sara.simulation.summary import Figure, jackknife_ratio
from sara.strategies import STRATEGIES

DEFAULT_PROMPTS = 10_000
_SECONDS_PER_HOUR = 3600
_RARE = 1e-6  # a chance to miss the target that a closed form may leave out


@dataclass(frozen=True)
class Prediction:
    """One strategy's costs. A step's are means; errors are standard errors over simulated seeds, 0 where exact.

    strategy, is_advised  a strategy, with the plan's settings or with the advised ones
    method                "exact" or "simulated"
    rollouts, tokens      of a step
    rounds, groups        of a step; `groups` are the effective groups trained on
    rollouts_per_group    rollouts for each of these groups
    tokens_vs_ds          tokens for each of them, as a share of DS's
    total_rollouts, total_tokens, gpu_hours, hours
                          of the whole run: generation alone, on one GPU, and on all of them together
    """

    strategy: str
    is_advised: bool
    method: str
    rollouts: float
    rollouts_error: float
    tokens: float
    rounds: float
    groups: float
    rollouts_per_group: float | None
    tokens_per_group: float | None
    tokens_vs_ds: float | None
    total_rollouts: float
    total_tokens: float
    gpu_hours: float
    hours: float

    @property
    def label(self) -> str:
        return self.strategy + (", advised" if self.is_advised else "")


@dataclass(frozen=True)
class _Step:
    """Means of one step."""

    method: str
    rollouts: Figure
    tokens: float
    rounds: float
    groups: float


def predict(
    config: PlanConfig, pool: Pool, advice: Advice | None, on_progress: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """One row for each strategy, and a further one for each that the advised settings would change."""
    jobs = [(strategy, config.allocation, False) for strategy in config.strategies]
    advised = advice.apply_to(config.allocation) if advice else config.allocation
    if advised != config.allocation:
        jobs += [(s, advised, True) for s in config.strategies if STRATEGIES[s].allocator == "sara"]
    steps = {}
    for done, (strategy, allocation, is_advised) in enumerate(jobs, 1):
        steps[strategy, is_advised] = _step(config, pool, strategy, allocation)
        if on_progress:
            on_progress(done, len(jobs))
    reference = steps.get(("ds", False)) or _step(config, pool, "ds", config.allocation)
    return [_prediction(config, *key, step, reference) for key, step in steps.items()]


def num_prompts(config: PlanConfig, pool: Pool) -> int:
    """Prompts in the pool: as configured, else as counted, else a default."""
    return config.prompts or pool.prompts or DEFAULT_PROMPTS


def _step(config: PlanConfig, pool: Pool, strategy: str, allocation: AllocationConfig) -> _Step:
    step = _exact_step(config, pool, strategy, allocation) or _simulated_step(config, pool, strategy, allocation)
    return step if has_mixed_groups(pool.mixture, allocation.k) else replace(step, groups=0.0)


def _exact_step(config: PlanConfig, pool: Pool, strategy: str, allocation: AllocationConfig) -> _Step | None:
    """None where there is no closed form: other strategies, a budget, a stream, a step that may miss its target."""
    k, target = allocation.k, allocation.groups_per_step
    group = ds_costs(pool.mixture, k, config.tokens.right, config.tokens.wrong)
    chunks_in_pool = num_prompts(config, pool) // target
    if allocation.budget is not None or chunks_in_pool == 0:
        return None
    if strategy == "uniform":
        return _whole_groups(k, target, float(group.tokens), 1.0, target * float(group.effective))
    max_chunks = min(allocation.max_gen_batches, allocation.max_rounds, chunks_in_pool)
    is_at_risk = binom.cdf(target - 1, target * max_chunks, group.effective) > _RARE
    if strategy != "ds" or is_at_risk or allocation.schedule == "stream":
        return None
    chunks = expected_chunks(float(group.effective), target, target, max_chunks)
    return _whole_groups(k, target * chunks, float(group.tokens), chunks, float(target))


def _whole_groups(k: int, opened: float, tokens_of_group: float, rounds: float, groups: float) -> _Step:
    return _Step("exact", Figure(k * opened, 0.0), tokens_of_group * opened, rounds, groups)


def _simulated_step(config: PlanConfig, pool: Pool, strategy: str, allocation: AllocationConfig) -> _Step:
    simulated = SimulateConfig(
        strategies=(strategy,),
        steps=min(config.simulated.steps, config.steps),
        num_seeds=config.simulated.num_seeds,
        first_seed=config.simulated.first_seed,
        population=PopulationConfig(prompts=num_prompts(config, pool), components=pool.mixture.components()),
        tokens=config.tokens,
        selection=config.selection,
        allocation=allocation,
    )
    traces = [simulate(simulated, Run(strategy, allocation), seed) for seed in simulated.seeds]

    def mean(metric: str) -> float:
        return float(np.mean([trace.steps[metric].mean() for trace in traces]))

    per_seed = np.array([trace.total("rollouts/generated") for trace in traces])
    rollouts = jackknife_ratio(per_seed, np.full(per_seed.size, float(simulated.steps)))
    return _Step("simulated", rollouts, mean("tokens/generated"), mean("rounds"), mean("groups/effective"))


def _prediction(config: PlanConfig, strategy: str, is_advised: bool, step: _Step, ds: _Step) -> Prediction:
    total_tokens = step.tokens * config.steps
    gpu_hours = total_tokens / config.machine.tokens_per_s / _SECONDS_PER_HOUR
    per_group = step.tokens / step.groups if step.groups else None
    ds_per_group = ds.tokens / ds.groups if ds.groups else None
    return Prediction(
        strategy=strategy,
        is_advised=is_advised,
        method=step.method,
        rollouts=step.rollouts.value,
        rollouts_error=step.rollouts.error or 0.0,
        tokens=step.tokens,
        rounds=step.rounds,
        groups=step.groups,
        rollouts_per_group=step.rollouts.value / step.groups if step.groups else None,
        tokens_per_group=per_group,
        tokens_vs_ds=per_group / ds_per_group if per_group and ds_per_group else None,
        total_rollouts=step.rollouts.value * config.steps,
        total_tokens=total_tokens,
        gpu_hours=gpu_hours,
        hours=gpu_hours / config.machine.gpus,
    )
