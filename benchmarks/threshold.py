"""What a learned threshold saves: `tau_low = "auto"` beside DS, the fixed thresholds and the optimum.

    python benchmarks/threshold.py [--k 8 16 32] [--steps 60] [--seeds 4] [--populations beta zeros ...] [--exact]
    python benchmarks/threshold.py --grid [--k 8 16] [--groups 16] [--steps 40] [--seeds 16]

Two tables. The first is exact: what stopping boundaries cost over a population whose distribution of success rates
is known, in fill mode, relative to DS. The second simulates whole steps (B = 16, uniform selection, an allocator that
starts knowing nothing), and for each of them also values, exactly, the boundaries that were in force. With --grid it is
one table instead: these values alone, over many more populations, those among them where abandoning hardly pays or
just does not; and all rollouts that such runs drew for a group, beside DS's and those of the best fixed threshold.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sara.allocation import Allocator, DynamicSamplingAllocator, Limits, SequentialAllocator
from sara.allocation.boundaries import Boundaries, Objective, appraise, best_boundaries
from sara.allocation.moments import RateMoments, mixture_moments
from sara.collection import collect
from sara.engines.population import PopulationSource
from sara.seeds import step_rng
from sara.selection import ShuffleSelector
from sara.simulation.mixtures import RateMixture

B, POOL = 16, 20_000
CAP = 0.25  # SequentialAllocator's default max_false_abandon
TAUS = np.arange(1, 100) / 100


@dataclass(frozen=True)
class Population:
    """Success rates at the start, and by how much their log-odds rise from step to step (0 and 1 stay)."""

    mixture: RateMixture
    drift: float = 0.0

    def rates(self, start: NDArray[np.float64], step: int) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return 1 / (1 + (1 / start - 1) * np.exp(-self.drift * (step - 1)))


def _of(*components: dict[str, float]) -> RateMixture:
    return RateMixture.of(list(components))


POPULATIONS = {
    "beta": Population(RateMixture.beta(0.1, 0.3)),
    "hard": Population(_of({"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2})),
    "uniform": Population(RateMixture.beta(1, 1)),
    "zeros": Population(_of({"weight": 0.9, "rate": 0}, {"weight": 0.1, "alpha": 1, "beta": 1})),
    "ones": Population(_of({"weight": 0.8, "rate": 1}, {"weight": 0.2, "alpha": 1, "beta": 1})),
    "two": Population(_of({"weight": 0.7, "rate": 0.02}, {"weight": 0.3, "rate": 0.6})),
    "drift": Population(RateMixture.beta(0.1, 0.3), drift=0.04),
}

GRID = {
    **{f"0 and {rate}": RateMixture.of([{"rate": 0}, {"rate": rate}]) for rate in (0.05, 0.1, 0.2, 0.3)},
    "0 (1/4) and 0.05": _of({"weight": 0.25, "rate": 0}, {"weight": 0.75, "rate": 0.05}),
    "0.9 and 1": _of({"rate": 0.9}, {"rate": 1}),
    **{f"{rate} and {1 - rate}": _of({"rate": rate}, {"rate": 1 - rate}) for rate in (0.02, 0.05, 0.1)},
    **{f"{rate} and 0.5": _of({"rate": rate}, {"rate": 0.5}) for rate in (0.05, 0.1)},
    "0.02 (70%) and 0.6": POPULATIONS["two"].mixture,
    "0, 0.15 and 1": _of({"weight": 0.35, "rate": 0}, {"weight": 0.3, "rate": 0.15}, {"weight": 0.35, "rate": 1}),
    **{f"all {rate}": _of({"rate": rate}) for rate in (0.05, 0.2, 0.9)},
    **{
        f"Beta({alpha}, {beta})": RateMixture.beta(alpha, beta)
        for alpha, beta in [(0.1, 0.3), (0.3, 0.9), (0.5, 0.5), (0.5, 1.5), (0.7, 0.7), (1, 1), (1, 3)]
    },
    **{name: POPULATIONS[name].mixture for name in ("hard", "zeros", "ones")},
}


def moments_of(mixture: RateMixture, k: int) -> RateMoments:
    n = np.arange(k + 3)
    return RateMoments(mixture.moment(0, n), mixture.moment(n, 0))


def cost_per_group(boundaries: Boundaries, moments: RateMoments) -> float:
    appraisal = appraise(boundaries, moments)
    return appraisal.cost / appraisal.value if appraisal.value > 1e-12 else np.inf


def threshold(k: int, tau_low: float) -> Boundaries:
    """Where a fixed threshold under the uniform prior abandons, looking after every rollout."""
    first = next(n for n in range(1, k + 1) if (k - n) / (k + 1) < tau_low)
    return Boundaries(first, first, 1, 1)


def best_threshold(moments: RateMoments, cap: float) -> tuple[float, float]:
    """The best fixed threshold that loses at most `cap` of the effective groups, and its rollouts for a group."""
    at = [(tau, threshold(moments.k, tau)) for tau in TAUS]
    allowed = [(tau, b) for tau, b in at if appraise(b, moments).lost_share <= cap + 1e-12]
    return min(((tau, cost_per_group(b, moments)) for tau, b in allowed), key=lambda pair: pair[1])


def exact_table(sizes: list[int], names: list[str]) -> Table:
    table = Table(
        title="Exact: rollouts for an effective group in fill mode, relative to DS (all-fail/all-pass boundary)"
    )
    heads = ["population", "k", "DS / uniform", "tau 0.5", "loses", "best tau, cap", "optimum"]
    for head in [*heads, *[f"cap {cap:g}" for cap in (0.5, CAP, 0.1)]]:
        table.add_column(head, justify="right")
    for name in names:
        for k in sizes:
            moments = moments_of(POPULATIONS[name].mixture, k)
            ds = k / moments.effective
            half = threshold(k, 0.5)
            cells = [name, str(k), f"{ds / k:.2f}", f"{cost_per_group(half, moments) / ds:.3f}"]
            cells += [f"{appraise(half, moments).lost_share:.2f}", f"{best_threshold(moments, CAP)[1] / ds:.3f}"]
            for cap in (1.0, 0.5, CAP, 0.1):
                best = best_boundaries(moments, Objective(max_false_abandon=cap))
                cells.append(f"{cost_per_group(best, moments) / ds:.3f} ({best.all_fail}/{best.all_pass})")
            table.add_row(*cells)
    return table


def play(allocator, population: Population, k: int, steps: int, seed: int) -> dict[str, float]:
    """Totals of a run, and the mean exact cost and loss of the boundaries in force, from the second step on."""
    start = population.mixture.sample(POOL, step_rng(seed, 0, "benchmark: rates"))
    source, selector = PopulationSource(start, seed), ShuffleSelector(POOL, seed)
    totals = dict.fromkeys(("rollouts", "groups", "rounds", "trained", "right"), 0.0)
    exact = {"cost": [], "best": [], "optimum": [], "lost": []}
    references = None
    for step in range(1, steps + 1):
        source.success_rates = population.rates(start, step)
        metrics = collect(step, selector, allocator, source, Limits(target=B), seed).metrics()
        totals["rollouts"] += metrics["rollouts/generated"]
        totals["groups"] += metrics["groups/trained"]
        totals["rounds"] += metrics["rounds"] / steps
        if references is None or population.drift:
            moments = mixture_moments(k, source.success_rates, np.full(POOL, 1 / POOL))
            optimum = best_boundaries(moments, Objective(max_false_abandon=CAP))
            ds = k / moments.effective
            references = best_threshold(moments, CAP)[1] / ds, cost_per_group(optimum, moments) / ds
        if "boundary/all_fail" in metrics and step > 1:
            names = ("all_fail", "all_pass", "probe", "increment")
            boundaries = Boundaries(*(int(metrics[f"boundary/{name}"]) for name in names))
            exact["cost"].append(cost_per_group(boundaries, moments) / ds)
            exact["lost"].append(appraise(boundaries, moments).lost_share)
            exact["best"].append(references[0])
            exact["optimum"].append(references[1])
    return totals | {name: float(np.mean(values)) if values else np.nan for name, values in exact.items()}


def simulated_table(sizes: list[int], names: list[str], steps: int, seeds: int) -> Table:
    table = Table(title=f"Simulated: {steps} steps, {seeds} seeds, rollouts for a trained group, relative to DS")
    heads = ["population", "k", "DS", "tau 0.5", "auto", "± s.e.", "rounds: DS", "auto", "boundaries in force: auto"]
    for head in [*heads, "best tau, cap", "optimum, cap", "auto loses", "audits cost"]:
        table.add_column(head, justify="right")
    for name in names:
        for k in sizes:
            table.add_row(name, str(k), *_simulated_row(POPULATIONS[name], k, steps, seeds))
    return table


def _simulated_row(population: Population, k: int, steps: int, seeds: int) -> list[str]:
    pace = {"probe": "auto", "increment": "auto"}
    builders = {
        "ds": lambda: DynamicSamplingAllocator(k, max_gen_batches=None),
        "half": lambda: SequentialAllocator(k, 0.5, **pace),
        "auto": lambda: SequentialAllocator(k, "auto", **pace),
        "unaudited": lambda: SequentialAllocator(k, "auto", audit_rate=0, **pace),
    }
    runs = {
        name: [play(build(), population, k, steps, seed) for seed in range(seeds)] for name, build in builders.items()
    }

    def each(name: str, what: str) -> NDArray[np.float64]:
        return np.array([run[what] for run in runs[name]])

    cost = {name: each(name, "rollouts") / each(name, "groups") for name in runs}
    of_ds = {name: cost[name] / cost["ds"] for name in runs}
    error = of_ds["auto"].std(ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
    cells = [f"{cost['ds'].mean():.1f}", *(f"{of_ds[name].mean():.3f}" for name in ("half", "auto")), f"{error:.3f}"]
    cells += [f"{each(name, 'rounds').mean():.1f}" for name in ("ds", "auto")]
    cells += [f"{each('auto', what).mean():.3f}" for what in ("cost", "best", "optimum", "lost")]
    return [*cells, f"{100 * (cost['auto'] / cost['unaudited'] - 1).mean():+.1f}%"]


def costs_in_force(mixture: RateMixture, k: int, groups: int, steps: int, seed: int) -> dict[str, float]:
    """Of one run: boundaries in force valued exactly, and rollouts drawn, beside DS and the best threshold's."""
    rates = mixture.sample(POOL, step_rng(seed, 0, "benchmark: rates"))
    moments = mixture_moments(k, rates, np.full(POOL, 1 / POOL))
    tau, best = best_threshold(moments, CAP)
    in_force: list[Boundaries] = []
    auto, fixed = (SequentialAllocator(k, tau_low, "auto", "auto") for tau_low in ("auto", tau))
    drawn = {
        "auto": _rollouts_drawn(auto, rates, groups, steps, seed, in_force),
        "ds": _rollouts_drawn(DynamicSamplingAllocator(k, max_gen_batches=None), rates, groups, steps, seed),
        "threshold": _rollouts_drawn(fixed, rates, groups, steps, seed),
    }
    costs = np.array([cost_per_group(boundaries, moments) for boundaries in in_force])
    ds = k / moments.effective
    return {
        "best": best / ds,
        "of_ds": costs.mean() / ds,
        "of_ds_late": costs[steps // 2 :].mean() / ds,
        "of_best": costs[1:].mean() / best,
        "of_best_late": costs[steps // 2 :].mean() / best,
        "drawn_of_ds": drawn["auto"] / drawn["ds"],
        "drawn_of_best": drawn["auto"] / drawn["threshold"],
    }


def _rollouts_drawn(
    allocator: Allocator,
    rates: NDArray[np.float64],
    groups: int,
    steps: int,
    seed: int,
    in_force: list[Boundaries] | None = None,
) -> float:
    """Rollouts for a trained group over a whole run; the boundaries of its steps are added to `in_force`."""
    selector, source = ShuffleSelector(POOL, seed), PopulationSource(rates, seed)
    spent = trained = 0
    for step in range(1, steps + 1):
        if in_force is not None:
            in_force.append(allocator.stopping.boundaries.at_looks(allocator.k))
        collection = collect(step, selector, allocator, source, Limits(target=groups), seed)
        spent, trained = spent + collection.ledger.spent, trained + collection.trained.size
    return spent / trained


GRID_HEADS = {
    "best": "best threshold, of DS",
    "of_ds": "of DS",
    "of_ds_late": "second half",
    "of_best": "of best threshold, steps 2 on",
    "of_best_late": "second half",
    "drawn_of_ds": "drawn, of DS",
    "drawn_of_best": "drawn, of best threshold",
}


def grid_table(sizes: list[int], groups: int, steps: int, seeds: int) -> Table:
    """Means over seeds; with several, one standard error behind those of whole runs."""
    table = Table(title=f"Boundaries in force: {steps} steps of {groups} groups from nothing, {seeds} seeds")
    for head in ["success rates", "k", *GRID_HEADS.values()]:
        table.add_column(head, justify="right")
    for k in sizes:
        for name, mixture in GRID.items():
            runs = [costs_in_force(mixture, k, groups, steps, seed) for seed in range(seeds)]
            table.add_row(name, str(k), *(_mean_of(runs, figure) for figure in GRID_HEADS))
    return table


def _mean_of(runs: list[dict[str, float]], figure: str) -> str:
    values = np.array([run[figure] for run in runs])
    has_error = len(runs) > 1 and figure != "best" and not figure.endswith("_late")
    error = f" ±{values.std(ddof=1) / np.sqrt(len(runs)):.4f}" if has_error else ""
    return f"{values.mean():.4f}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--populations", nargs="+", choices=POPULATIONS, default=list(POPULATIONS))
    parser.add_argument("--groups", type=int, default=B, help="groups of a step, with --grid")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--exact", action="store_true", help="the exact table only")
    parser.add_argument("--grid", action="store_true", help="learned boundaries over many populations instead")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="allocator.(tau_low|max_false_abandon)")
    console = Console(width=200)
    if options.grid:
        console.print(grid_table(options.k, options.groups, options.steps, options.seeds))
        return
    console.print(exact_table(options.k, [name for name in options.populations if not POPULATIONS[name].drift]))
    if not options.exact:
        console.print(simulated_table(options.k, options.populations, options.steps, options.seeds))


if __name__ == "__main__":
    main()
