"""What learning brings, in whole steps: `tau_low = "auto"` beside DS and thresholds, SARA+DPS beside DS+DPS."""

from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import Allocator, DynamicSamplingAllocator, Limits, SequentialAllocator
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


def best_fixed(moments: RateMoments) -> Boundaries:
    """Where the best fixed threshold under the uniform prior that keeps to the cap abandons."""
    at = [Boundaries(n, n, 1, 1) for n in range(1, moments.k + 1)]  # every threshold comes to one of them
    allowed = [b for b in at if appraise(b, moments).lost_share <= CAP + 1e-12]
    return min(allowed, key=lambda b: cost_per_group(b, moments))


def best_threshold(moments: RateMoments) -> float:
    """Its rollouts for a group."""
    return cost_per_group(best_fixed(moments), moments)


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


def mean_over_runs(rates, k, steps, seeds) -> tuple[float, float, float, RateMoments]:
    """Cost in force relative to DS over whole runs and from the middle on, and what is lost; with the true moments."""
    runs = [boundaries_in_force(k, lambda step: rates, steps, seed) for seed in seeds]
    moments = runs[0][0][1]
    cost = np.array([[cost_per_group(b, moments) for b, _ in run] for run in runs]) * moments.effective / k
    lost = np.mean([appraise(b, moments).lost_share for run in runs for b, _ in run])
    return cost.mean(), cost[:, steps // 2 :].mean(), lost, moments


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("k", "steps"), [(8, 30), (16, 25)])
def test_auto_never_costs_more_than_dynamic_sampling_or_the_best_threshold_with_its_cap(population, k, steps):
    """The boundaries that runs of some 30 steps had in force, valued exactly: only what they learned from is random.

    Nor are they far from the optimum that knows the prior (measured over four seeds: 7% below to 6% above). They can
    lie below, for that optimum keeps to the cap exactly, while an estimate wavers around it (lost: at most 25.1%).
    """
    rates = RateMixture.of(POPULATIONS[population]).sample(20_000, step_rng(1, 0, "rates"))
    cost, _, lost, moments = mean_over_runs(rates, k, steps, seeds=(1, 2))
    optimum = best_boundaries(moments, Objective(max_false_abandon=CAP))
    assert cost <= 1.005
    assert cost <= 1.01 * best_threshold(moments) * moments.effective / k
    assert cost <= 1.08 * cost_per_group(optimum, moments) * moments.effective / k
    assert lost <= CAP + 0.02


NOTHING_PAYS = [(0.02, 0.98), (0.05, 0.95), (0.1, 0.5)]
LITTLE_PAYS = [(0.0, 0.05), (0.0, 0.1), (0.9, 1.0)]


@pytest.mark.parametrize(("k", "steps"), [(8, 40), (16, 30)])
@pytest.mark.parametrize("rates", NOTHING_PAYS)
def test_where_nothing_pays_auto_is_dynamic_sampling_up_to_what_learning_costs(rates, k, steps):
    """Half the prompts at each of two rates, 4 seeds, from nothing; single runs up to 0.8%.

    There the best that abandoning can do is to cost 0.3 to 1.8% more than DS, so telling it from a gain takes more
    prompts than a run remembers. Measured over 16 seeds: 0.0 to 0.13% above DS, standard errors of at most 0.05%.
    """
    cost, late, _, _ = mean_over_runs(np.repeat(rates, 10_000), k, steps, range(4))
    assert cost <= 1.0025 and late <= 1.0025


@pytest.mark.parametrize(("k", "steps"), [(8, 40), (16, 30)])
@pytest.mark.parametrize("rates", LITTLE_PAYS)
def test_where_little_pays_auto_is_within_a_hundredth_of_the_best_threshold(rates, k, steps):
    """Half the prompts at each of two rates, mean of 4 seeds: there is 0.5 to 7% to be gained."""
    cost, late, _, moments = mean_over_runs(np.repeat(rates, 10_000), k, steps, range(4))
    best = best_threshold(moments) * moments.effective / k
    assert cost <= 1.01 * best and late <= 1.008 * best and cost < 1


GRID = {
    "nothing pays, two extremes": [{"rate": 0.02}, {"rate": 0.98}],
    "nothing pays, two rates": [{"rate": 0.1}, {"rate": 0.5}],
    "one low rate": [{"rate": 0.05}],
    "every group effective": [{"rate": 0.5}],
    "little pays, low": [{"rate": 0}, {"rate": 0.05}],
    "little pays, high": [{"rate": 0.9}, {"rate": 1}],
    "U-shaped": [{"alpha": 0.5, "beta": 0.5}],
    "flatter": [{"alpha": 0.7, "beta": 0.7}],
    "low rates": [{"alpha": 1, "beta": 3}],
    **POPULATIONS,
}


def rollouts_drawn(allocator: Allocator, rates: np.ndarray, groups: int, steps: int, seed: int) -> float:
    """For a trained group, of a whole run."""
    pool, source, spent = ShuffleSelector(rates.size, seed), PopulationSource(rates, seed), 0
    for step in range(1, steps + 1):
        collection = collect(step, pool, allocator, source, Limits(target=groups), seed)
        assert collection.trained.size == groups
        spent += collection.ledger.spent
    return spent / (groups * steps)


@pytest.mark.filterwarnings("ignore:allocator.tau_low")
@pytest.mark.parametrize("population", GRID)
@pytest.mark.parametrize("k", [8, 16])
def test_runs_of_auto_draw_no_more_than_ds_and_a_hundredth_more_than_the_best_threshold(population, k):
    """Whole runs from nothing, 20 steps of the paper's 256 groups, two seeds: all that was drawn, the learning too.

    Where every group is effective a step may probe one prompt more than 256, for those that are not mixed yet: 0.2%.
    A threshold that abandons where n of k rollouts are equal is (k - n + 0.5) / (k + 1), and probes n of them.
    """
    of_ds, of_best = [], []
    for seed in (1, 2):
        rates = RateMixture.of(GRID[population]).sample(20_000, step_rng(seed, 0, "rates"))
        n = best_fixed(mixture_moments(k, rates, np.full(rates.size, 1 / rates.size))).all_fail
        fixed = SequentialAllocator(k, (k - n + 0.5) / (k + 1) if n < k else 0.0, "auto", "auto")
        assert n == k or fixed.stopping.boundaries[:2] == (n, n)
        ds = DynamicSamplingAllocator(k, max_gen_batches=None)
        auto, fixed, ds = (
            rollouts_drawn(allocator, rates, 256, 20, seed) for allocator in (SequentialAllocator(k, **AUTO), fixed, ds)
        )
        of_ds.append(auto / ds)
        of_best.append(auto / fixed)
    assert np.mean(of_ds) <= 1.002
    assert np.mean(of_best) <= 1.01


def test_auto_follows_a_policy_that_learns():
    """Log-odds that rise by 0.1 a step, 4 in all: the share of effective groups changes, and so does what pays."""
    start = RateMixture.of(POPULATIONS["saturated"]).sample(20_000, step_rng(1, 0, "rates")).clip(1e-9, 1 - 1e-9)

    def rates_of(step):
        return 1 / (1 + (1 / start - 1) * np.exp(-0.1 * (step - 1)))

    in_force = boundaries_in_force(8, rates_of, 40, seed=1)
    cost = np.mean([cost_per_group(b, moments) * moments.effective / 8 for b, moments in in_force])  # of DS then
    fixed = np.mean([best_threshold(moments) * moments.effective / 8 for _, moments in in_force])
    assert cost < 0.95 * fixed  # measured over three seeds: 0.803 to 0.826, and 0.873 to 0.875


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
    10.6 to 12.3, ds 13.1 to 14.1, assumed 15.6 to 19.8.
    """
    costs = {}
    for name, strategy, options in [
        ("learned", "sara+dps", {}),
        ("assumed", "sara+dps", {"learn_prior": False}),
        ("ds", "ds+dps", {}),
    ]:
        costs[name] = np.mean([mean_cost(strategy, 512, seed, 60, **options) for seed in (0, 1)])
    assert costs["learned"] < 0.93 * costs["ds"] < costs["ds"] < costs["assumed"]
