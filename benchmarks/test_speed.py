"""How fast the allocation core and the simulator are, outside the test run:

    python -m pytest benchmarks --benchmark-columns=min,median,rounds

Set OMP_NUM_THREADS=1 for figures of one core. The last benchmark also prints the memory of the process.
"""

from __future__ import annotations

import resource

import numpy as np
import pytest

from sara.allocation import Draws, Fate, Ledger, Limits, SequentialAllocator
from sara.selection import DPSBeliefs
from sara.selection.dps import MIXED
from sara.simulation.config import SimulateConfig
from sara.simulation.exact import cheapest_pair
from sara.simulation.mixtures import POPULATIONS
from sara.simulation.run import plan_runs, simulate
from sara.simulation.source import PopulationSource

MILLION = 1_000_000


@pytest.fixture(scope="module")
def rates() -> np.ndarray:
    return POPULATIONS["saturated"].sample(MILLION, np.random.default_rng(0))


@pytest.mark.parametrize("num_prompts", [100_000, MILLION])
def test_dps_moves_every_belief(benchmark, num_prompts):
    """One step of DPS: 256 prompts seen, all of them moved."""
    beliefs, rng = DPSBeliefs(num_prompts), np.random.default_rng(0)
    seen, successes = rng.choice(num_prompts, 256, replace=False), rng.integers(0, 9, 256)
    benchmark(beliefs.update, seen, successes, 8)
    is_mixed = (successes > 0) & (successes < 8)
    np.testing.assert_array_equal(beliefs.mu_post[seen, MIXED], is_mixed)
    unseen = np.setdiff1d(np.arange(num_prompts), seen)
    np.testing.assert_allclose(beliefs.mixed_next(unseen), 1 / 3)  # nothing is known of them


@pytest.mark.parametrize("tau_low", [0.5, "auto"])
def test_a_million_open_prompts_are_decided(benchmark, rates, tau_low):
    """What SARA decides in one round: judge every open prompt, say how many to open and what each one draws."""
    pace = "auto" if tau_low == "auto" else 4
    allocator = SequentialAllocator(8, tau_low=tau_low, probe=pace, increment=pace)
    ledger, limits = Ledger(), Limits(target=2 * MILLION)
    ledger.open(np.arange(MILLION))
    ledger.issued[:], ledger.n[:], ledger.spent = 4, 4, 4 * MILLION
    ledger.s[:] = np.random.default_rng(0).binomial(4, rates)

    def reopen():
        ledger.fate[:] = Fate.OPEN

    def decide():
        allocator.judge(ledger)
        allocator.num_to_open(ledger, limits)
        allocator.allocate(ledger, limits)

    benchmark.pedantic(decide, setup=reopen, rounds=15, warmup_rounds=2)
    is_mixed = (ledger.s > 0) & (ledger.s < 4)
    np.testing.assert_array_equal(ledger.fate == Fate.COMMITTED, is_mixed)  # all that are mixed, and no others


def test_a_million_rollouts_are_drawn(benchmark, rates):
    source = PopulationSource(rates, 0, tokens_right=600, tokens_wrong=1000)
    draws = Draws(np.arange(MILLION), np.zeros(MILLION, dtype=np.int64), np.zeros(MILLION, dtype=np.int64))
    outcomes = benchmark.pedantic(source.draw, args=(1, draws), rounds=5, warmup_rounds=1)
    error = np.sqrt(rates @ (1 - rates)) / MILLION
    assert outcomes.rewards.mean() == pytest.approx(rates.mean(), abs=5 * error)


def test_every_pair_of_boundaries_is_priced(benchmark):
    """The enumeration at k = 64: 4,096 pairs."""
    best = benchmark(cheapest_pair, POPULATIONS["saturated"], 64, 0.25)
    assert best == (10, 40)  # as docs/simulate.md says


@pytest.mark.parametrize("strategy", ["ds", "sara", "sara+dps"])
def test_steps_of_a_year_of_training(benchmark, strategy):
    """100 steps of 256 groups over 1,000,000 prompts and a policy that learns. A year of 3,000 steps is 30 of these."""
    config = SimulateConfig(
        strategies=(strategy,),
        steps=100,
        num_seeds=1,
        population={"prompts": MILLION, "drift": 0.001, "gain": 0.3},
        allocation={"groups_per_step": 256, "tau_low": "auto", "probe": "auto", "increment": "auto"},
    )
    trace = benchmark.pedantic(simulate, args=(config, plan_runs(config)[0], 0), rounds=1)
    assert (trace.steps["groups/trained"] == 256).all() and not trace.steps["is_short"].any()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    benchmark.extra_info["peak_memory_mib"] = round(peak_mib)
    print(f"\n{strategy}: 3,000 steps take {30 * benchmark.stats.stats.min / 60:.1f} minutes; peak {peak_mib:.0f} MiB")
