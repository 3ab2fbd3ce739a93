"""Simulated runs: against the exact enumeration, and against the loop that trains."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sara.allocation import Limits
from sara.collection import collect
from sara.datasets.base import Problem
from sara.engines.base import Completion, Engine, Sampling
from sara.rollouts import RolloutSampler
from sara.seeds import unit_interval
from sara.simulation.config import SimulateConfig
from sara.simulation.exact import ds_costs, expected_chunks
from sara.simulation.mixtures import POPULATIONS
from sara.simulation.oracle import ORACLE, OracleSelector, WholeGroupsAllocator
from sara.simulation.run import Run, build_population, build_run, plan_runs, simulate
from sara.simulation.source import PopulationSource
from sara.simulation.study import simulate_all
from sara.simulation.summary import summarise
from sara.strategies import STRATEGIES, configured_limits, configured_strategy
from sara.verifiers import Verdict

EVERY = (*STRATEGIES, ORACLE)


def small(**changes) -> SimulateConfig:
    values = {"steps": 12, "num_seeds": 2, "population": {"prompts": 400}, "allocation": {"groups_per_step": 4}}
    return SimulateConfig(**values | changes)


@pytest.mark.parametrize(
    ("population", "k", "on_commit"),
    [
        ("saturated", 8, "fill"),
        ("saturated", 8, "stop"),
        ("saturated", 32, "fill"),
        ("hard", 16, "fill"),
        ("uniform", 8, "fill"),
        ("easy", 8, "stop"),
    ],
)
def test_a_fixed_population_costs_what_the_enumeration_says(population, k, on_commit):
    """A budget instead of a target leaves no overshoot. 8 seeds, error measured by the jackknife: within 4 of it, and
    it is below 1% of the cost, so that a rule that abandoned one rollout earlier or later would fail."""
    config = SimulateConfig(
        strategies=("ds", "sara"),
        steps=1,
        num_seeds=8,
        population={"name": population, "prompts": 100_000 * 8 // k},
        allocation={
            "k": k,
            "probe": k // 2,
            "increment": k // 2,
            "on_commit": on_commit,
            "budget": 100_000,
            "groups_per_step": 100_000,
        },
    )
    rows = summarise(config, simulate_all(config))
    for row in rows:
        measured, exact = row.rollouts_per_group, row.exact_rollouts_per_group
        assert measured.error < 0.01 * measured.value
        assert measured.value == pytest.approx(exact, abs=4 * measured.error)
    saving = 1 - rows[1].exact_rollouts_per_group / rows[0].exact_rollouts_per_group
    ratio = rows[1].rollouts_vs_ds
    assert 1 - ratio.value == pytest.approx(saving, abs=4 * ratio.error)


def test_the_overshoot_of_dynamic_sampling_is_the_exact_one():
    """Chunks of 16 until 16 groups are effective: 320 steps, within 4 standard errors over 8 seeds."""
    config = SimulateConfig(strategies=("ds",), steps=40, num_seeds=8)
    row = summarise(config, simulate_all(config))[0]
    chunks = expected_chunks(float(ds_costs(POPULATIONS["saturated"], 8).effective), 16, 16, 20)
    assert row.rounds.value == pytest.approx(chunks, abs=4 * row.rounds.error)
    assert row.rounds.error < 0.1


class CoinEngine(Engine):
    """An engine whose policy is a population: the completion of a seed is `1` or `0`, as long as its token count."""

    def __init__(self, source: PopulationSource) -> None:
        self.source, self.step = source, 0
        self._ended, self._num_submitted = [], 0

    @property
    def num_in_flight(self):
        return len(self._ended)

    def submit(self, requests, sampling):
        tickets = [self._num_submitted + i for i in range(len(requests))]
        self._num_submitted += len(tickets)
        self._ended += zip(tickets, self._complete(requests), strict=True)
        return tickets

    def advance(self):
        ended, self._ended = self._ended, []
        return ended

    def abort(self, tickets):
        raise NotImplementedError("rounds abort nothing")

    def _complete(self, requests):
        prompts = np.array([request.prompt_ids[0] for request in requests])
        seeds = np.array([request.seed for request in requests], dtype=np.uint64)
        is_right = unit_interval(seeds, 0) < self.source.rates(self.step, prompts)
        means = np.where(is_right, self.source.tokens_right[prompts], self.source.tokens_wrong[prompts])
        lengths = np.maximum(np.rint(means * (0.5 + unit_interval(seeds, 1))), 1).astype(int)
        return [
            Completion(np.full(length, right), np.zeros(length, np.float32), "stop", 0)
            for right, length in zip(is_right.astype(int), lengths, strict=True)
        ]

    def sync_weights(self, named_weights):
        self.step += 1


def coin_sampler(source: PopulationSource, seed: int) -> RolloutSampler:
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "right" if ids[0] else "wrong")
    num_prompts = source.success_rates.size
    verify = lambda text: Verdict.RIGHT if text == "right" else Verdict.WRONG  # noqa: E731
    problems = [Problem(str(i), "", {}, verify) for i in range(num_prompts)]
    pool = SimpleNamespace(
        problems=problems, prompt_ids=[(i,) for i in range(num_prompts)], openings=[""] * num_prompts
    )
    return RolloutSampler(CoinEngine(source), tokenizer, pool, Sampling(1.0, 2000), seed)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_training_with_a_fake_engine_counts_what_the_simulator_counts(strategy):
    """The sampler, engine and verifier of training against the simulator's source, with a policy that learns: every
    ledger of every step, and what is trained on, are the same."""
    config = small(population={"prompts": 300, "drift": 0.05, "gain": 0.5}, allocation={"groups_per_step": 4, "k": 6})
    allocation, seed = config.allocation, 7
    trace = simulate(config, Run(strategy, allocation), seed)
    simulated, trained = build_population(config, seed), build_population(config, seed)
    sampler = coin_sampler(trained, seed)
    pairs = [configured_strategy(strategy, 300, seed, allocation, config.selection) for _ in range(2)]
    for step in range(1, config.steps + 1):
        limits = configured_limits(allocation)
        here = collect(step, *pairs[0], simulated, limits, seed, allocation.max_redraws)
        sampler.engine.sync_weights([])
        there = collect(step, *pairs[1], sampler, limits, seed, allocation.max_redraws)
        simulated.learn(here.trained)
        trained.learn(there.trained)
        assert here.metrics() == there.metrics()
        for name, column in here.ledger.state_dict().items():
            np.testing.assert_array_equal(column, there.ledger.state_dict()[name])
        np.testing.assert_array_equal(here.trained, there.trained)
        assert len(sampler.take(there.trained.tolist())) == there.metrics()["rollouts/trained"]
        for metric in ("rollouts/generated", "tokens/generated", "groups/effective", "rounds"):
            assert trace.steps[metric][step - 1] == there.metrics()[metric]


@pytest.mark.parametrize("strategy", EVERY)
def test_a_run_is_a_function_of_its_seed(strategy):
    config = small()
    run = Run(strategy, config.allocation)
    first, again, other = simulate(config, run, 3), simulate(config, run, 3), simulate(config, run, 4)
    for metric, values in first.steps.items():
        np.testing.assert_array_equal(values, again.steps[metric])
    assert any((values != other.steps[metric]).any() for metric, values in first.steps.items())


def test_processes_change_nothing_and_warn_once():
    config = small(strategies=("ds", "sara"), steps=3, allocation={"groups_per_step": 4, "tau_low": 0.2})
    both = []
    for workers in (1, 2):
        with pytest.warns(UserWarning, match=r"tau_low = 0\.2 abandons nothing") as caught:
            both.append(simulate_all(config, workers))
        assert len(caught) == 1
    for alone, shared in zip(*both, strict=True):
        assert (alone.run, alone.seed) == (shared.run, shared.seed)
        np.testing.assert_array_equal(alone.steps["tokens/generated"], shared.steps["tokens/generated"])


def test_progress_counts_runs_and_seeds():
    seen = []
    config = small(strategies=("uniform", "sara"), steps=2)
    simulate_all(config, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_oracle_opens_the_candidates_closest_to_even_odds_and_only_as_many_as_wanted():
    """Mixed at k = 8 with chance 1 - r^8 - (1-r)^8: highest at 1/2, then 0.3, 0.9; of 2 wanted, 2 are opened."""
    source = PopulationSource([0.0, 0.9, 0.3, 1.0, 0.5, 0.001], 0)
    selector = OracleSelector(source, 8, seed=0, candidate_ratio=3, groups_per_step=2)
    selector.begin_step(1, 2)
    assert selector.select(3).tolist() == [4, 2, 1]
    selector = OracleSelector(source, 8, seed=0, candidate_ratio=3, groups_per_step=2)
    collection = collect(1, selector, WholeGroupsAllocator(8), source, Limits(target=2), seed=0)
    assert collection.metrics()["rollouts/generated"] == 16 and collection.rounds == 1


def test_the_oracle_replaces_only_the_groups_that_turned_out_saturated():
    """Rates of 0.05: a third of the groups is mixed. Each round opens what is still missing, so nothing is surplus."""
    source = PopulationSource(np.full(3000, 0.05), 1)
    selector = OracleSelector(source, 8, seed=0, candidate_ratio=16, groups_per_step=30)
    metrics = collect(1, selector, WholeGroupsAllocator(8, 50), source, Limits(target=30), seed=1).metrics()
    assert metrics["groups/trained"] == 30 and metrics["groups/surplus"] == 0
    assert metrics["rounds"] > 3
    assert metrics["rollouts/generated"] == 8 * metrics["groups/opened"]


def test_the_oracle_costs_least_and_knows_the_rates_of_the_step():
    config = small(strategies=EVERY, steps=20, population={"prompts": 1000, "drift": 0.3})
    rows = {row.strategy: row for row in summarise(config, simulate_all(config))}
    best = rows[ORACLE].rollouts_per_group.value
    assert 8 <= best < 1.1 * 8
    assert all(best < row.rollouts_per_group.value for name, row in rows.items() if name != ORACLE)


def test_a_policy_that_learns_passes_more_and_faster_where_it_trains():
    shares = {}
    for name, drift, gain in (("still", 0.0, 0.0), ("drift", 0.3, 0.0), ("gain", 0.0, 1.5)):
        config = small(
            steps=30, population={"name": "hard", "prompts": 24, "drift": drift, "gain": gain}, strategies=("uniform",)
        )
        rates = np.mean([trace.steps["reward/trained_mean"][-10:].mean() for trace in simulate_all(config)])
        shares[name] = rates
    assert shares["drift"] > shares["still"] + 0.1
    assert shares["gain"] > shares["still"] + 0.02


def test_only_the_settings_that_matter_to_a_strategy_are_run():
    config = small(strategies=("ds", "sara", ORACLE), grid={"k": [4, 8], "tau_low": [0.5, 0.6], "probe": [0.5]})
    runs = plan_runs(config)
    assert [(run.strategy, run.allocation.k) for run in runs if run.strategy != "sara"] == [
        ("ds", 4),
        ("ds", 8),
        (ORACLE, 4),
        (ORACLE, 8),
    ]
    sara = [run.allocation for run in runs if run.strategy == "sara"]
    assert [(a.k, a.tau_low, a.probe) for a in sara] == [(4, 0.5, 2), (4, 0.6, 2), (8, 0.5, 4), (8, 0.6, 4)]


def test_the_simulator_builds_what_training_builds():
    config = small()
    source = build_population(config, 0)
    for strategy in STRATEGIES:
        selector, allocator = build_run(config, Run(strategy, config.allocation), source, 0)
        ours = configured_strategy(strategy, 400, 0, config.allocation, config.selection)
        assert (type(selector), type(allocator)) == tuple(map(type, ours))
