"""What learning brings, in whole steps: `tau_low = "auto"` beside DS and thresholds, SARA+DPS beside DS+DPS."""

from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import Limits, SequentialAllocator
from sara.allocation.boundaries import Boundaries, Objective, appraise, best_boundaries
from sara.allocation.moments import RateMoments, mixture_moments
from sara.collection import collect
from sara.engines.population import PopulationSource
from sara.seeds import step_rng
from sara.selection import ShuffleSelector
from sara.simulation.mixtures import RateMixture
from sara.strategies import build_strategy

AUTO = {"tau_low": "auto", "probe": "auto", "increment": "auto"}
CAP = 0.25  # the default
POPULATIONS = {
    "saturated": [{"alpha": 0.1, "beta": 0.3}],
    "hard": [{"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2}],
    "uniform": [{"alpha": 1, "beta": 1}],
    "mostly zeros": [{"weight": 0.9, "rate": 0}, {"weight": 0.1, "alpha": 1, "beta": 1}],
    "mostly ones": [{"weight": 0.8, "rate": 1}, {"weight": 0.2, "alpha": 1, "beta": 1}],
    "two rates": [{"weight": 0.7, "rate": 0.02}, {"weight": 0.3, "rate": 0.6}],
}


def cost_per_group(boundaries: Boundaries, moments: RateMoments) -> float:
    appraisal = appraise(boundaries, moments)
    return appraisal.cost / appraisal.value if appraisal.value > 1e-12 else np.inf


def best_threshold(moments: RateMoments) -> float:
    """Rollouts for a group with the best fixed threshold under the uniform prior that keeps to the cap."""
    at = [Boundaries(n, n, 1, 1) for n in range(1, moments.k + 1)]  # every threshold comes to one of them
    return min(cost_per_group(b, moments) for b in at if appraise(b, moments).lost_share <= CAP + 1e-12)


def boundaries_in_force(k, rates_of, steps, seed) -> list[tuple[Boundaries, RateMoments]]:
    """Of each step after the first of a run that starts knowing nothing, with the moments of the true rates then."""
    pool, found = ShuffleSelector(20_000, seed), []
    allocator, source = SequentialAllocator(k, **AUTO), PopulationSource(rates_of(1), seed)
    for step in range(1, steps + 1):
        source.success_rates = rates_of(step)
        metrics = collect(step, pool, allocator, source, Limits(target=16), seed).metrics()
        if step > 1:
            names = ("all_fail", "all_pass", "probe", "increment")
            moments = mixture_moments(k, source.success_rates, np.full(20_000, 1 / 20_000))
            found.append((Boundaries(*(int(metrics[f"boundary/{name}"]) for name in names)), moments))
    return found


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("k", "steps"), [(8, 30), (16, 25)])
def test_auto_never_costs_more_than_dynamic_sampling_or_the_best_threshold_with_its_cap(population, k, steps):
    """The boundaries that a run of some 30 steps had in force, valued exactly: only what it learned from is random.

    For uniform rates, where nothing should be abandoned, an estimate from a few hundred prompts at times sees a gain
    of more than 1% where there is none; over whole runs that cost at most 0.4% (nine seeds).

    Nor is it far from the optimum that knows the prior (measured over four seeds: 6% below to 6% above). It can lie
    below, for that optimum keeps to the cap exactly, while an estimate wavers around it (lost: at most 26.2%).
    """
    rates = RateMixture.of(POPULATIONS[population]).sample(20_000, step_rng(1, 0, "rates"))
    in_force = boundaries_in_force(k, lambda step: rates, steps, seed=1)
    moments = in_force[0][1]
    cost = np.mean([cost_per_group(boundaries, moments) for boundaries, _ in in_force])
    ds, optimum = k / moments.effective, best_boundaries(moments, Objective(max_false_abandon=CAP))
    assert cost <= 1.006 * ds
    assert cost <= 1.01 * best_threshold(moments)
    assert cost <= 1.08 * cost_per_group(optimum, moments)
    lost = np.mean([appraise(boundaries, moments).lost_share for boundaries, _ in in_force])
    assert lost <= CAP + 0.02


@pytest.mark.parametrize(
    ("rates", "k", "steps", "above_threshold", "above_ds"),
    [
        ((0.0, 0.1), 8, 30, 0.012, 0.0),
        ((0.0, 0.1), 16, 25, 0.01, 0.0),
        ((0.05, 0.95), 8, 30, 0.006, 0.006),
        ((0.05, 0.95), 16, 25, 0.003, 0.003),
    ],
)
def test_auto_gains_what_there_is_to_gain_and_sees_no_gain_where_there_is_none(
    rates, k, steps, above_threshold, above_ds
):
    """Half the prompts at each of two rates, mean over four seeds; single runs waver more, up to 1.8%.

    Zeros and 0.1: abandoning gains 2% at k = 8 and 7% at k = 16, which is missed where it is not believed. Of 0.05 and
    0.95 nearly all saturated prefixes turn late: abandoning gains nothing, which is missed where noise is believed.
    """
    rates = np.repeat(rates, 10_000)
    in_force = [pair for seed in range(1, 5) for pair in boundaries_in_force(k, lambda step: rates, steps, seed)]
    moments = in_force[0][1]
    cost = np.mean([cost_per_group(boundaries, moments) for boundaries, _ in in_force])
    assert cost <= (1 + above_threshold) * best_threshold(moments)
    assert cost <= (1 + above_ds) * k / moments.effective


def test_auto_follows_a_policy_that_learns():
    """Log-odds that rise by 0.1 a step, 4 in all: the share of effective groups changes, and so does what pays."""
    start = RateMixture.of(POPULATIONS["saturated"]).sample(20_000, step_rng(1, 0, "rates")).clip(1e-9, 1 - 1e-9)

    def rates_of(step):
        return 1 / (1 + (1 / start - 1) * np.exp(-0.1 * (step - 1)))

    in_force = boundaries_in_force(8, rates_of, 40, seed=1)
    cost = np.mean([cost_per_group(b, moments) * moments.effective / 8 for b, moments in in_force])  # of DS then
    fixed = np.mean([best_threshold(moments) * moments.effective / 8 for _, moments in in_force])
    assert cost < 0.95 * fixed  # measured over three seeds: 0.815 to 0.821, and 0.873 to 0.876


@pytest.mark.parametrize("on_commit", ["fill", "stop"])
@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_pool_that_never_teaches_ends_by_its_budget_and_is_survived(k, rate, on_commit):
    allocator = SequentialAllocator(k, on_commit=on_commit, audit_rate=0.1, **AUTO)
    source, pool = PopulationSource(np.full(400, rate), 0), ShuffleSelector(400, 0)
    for step in range(1, 6):
        collection = collect(step, pool, allocator, source, Limits(target=4, budget=80 * k), seed=0)
        assert collection.trained.size == 0 and collection.ledger.spent <= 80 * k


def test_every_objective_reaches_its_target_with_effective_groups_only():
    for options in ({"on_commit": "stop", "value": "signal"}, {"cost": "tokens"}, {"value": "signal"}):
        allocator = SequentialAllocator(8, **AUTO | options)
        source, pool = PopulationSource.from_beta(5000, 0.2, 0.4, 0, tokens_wrong=50), ShuffleSelector(5000, 0)
        for step in range(1, 12):
            collection = collect(step, pool, allocator, source, Limits(target=8), seed=0)
            assert collection.outcome == "target" and collection.metrics()["effective_share"] == 1


def mean_cost(name: str, pool: int, seed: int, steps: int, **options) -> float:
    """Rollouts for a trained group, after ten steps of learning."""
    selector, allocator = build_strategy(
        name, num_prompts=pool, seed=seed, k=8, selector_options={"decay": 0.5}, allocator_options=options
    )
    source, spent, trained = PopulationSource.from_beta(pool, 0.1, 0.3, seed), 0, 0
    for step in range(1, steps + 1):
        collection = collect(step, selector, allocator, source, Limits(target=16, budget=2560), seed)
        if step > 10:
            spent, trained = spent + collection.ledger.spent, trained + collection.trained.size
    return spent / trained


def test_with_a_learned_prior_sara_dps_costs_less_than_ds_dps():
    """512 prompts. Under the uniform prior a prompt abandoned after four failures counts as mixed with chance 4/9, more
    than one never seen (1/3), so DPS keeps opening what was just abandoned. Measured over four pairs of seeds: learned
    10.5 to 11.9, ds 13.1 to 14.1, assumed 16.0 to 18.5.
    """
    costs = {}
    for name, strategy, options in [
        ("learned", "sara+dps", {}),
        ("assumed", "sara+dps", {"learn_prior": False}),
        ("ds", "ds+dps", {}),
    ]:
        costs[name] = np.mean([mean_cost(strategy, 512, seed, 60, **options) for seed in (0, 1)])
    assert costs["learned"] < 0.93 * costs["ds"] < costs["ds"] < costs["assumed"]
