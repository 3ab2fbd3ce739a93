"""A plan, and what it says in sentences: of the prompts, of settings and strategy, and of what it cannot know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sara.planning.config import PlanConfig
from sara.planning.pilot import mixed_share_interval
from sara.planning.predict import Prediction, num_prompts
from sara.planning.reading import Pool
from sara.planning.recommend import WORTHWHILE, Advice
from sara.seeds import step_rng
from sara.simulation.exact import ds_costs
from sara.strategies import STRATEGIES

_REFITS = 200


@dataclass(frozen=True)
class Plan:
    """What a plan rests on and what it found."""

    config: PlanConfig
    pool: Pool
    advice: Advice | None
    predictions: list[Prediction]

    @property
    def best(self) -> Prediction | None:
        """The cheapest in tokens for each effective group among strategies that train on full batches of them.

        The advised settings win over a strategy's others unless they cost more than is worth a change.
        """
        full = [row for row in self.predictions if STRATEGIES[row.strategy].allocator != "fixed" and row.groups]
        cheapest = min(full, key=lambda row: row.tokens_per_group, default=None)
        for row in full:
            is_alike = row.strategy == cheapest.strategy and row.is_advised
            if is_alike and row.tokens_per_group < cheapest.tokens_per_group * (1 + WORTHWHILE):
                return row
        return cheapest

    @cached_property
    def sentences(self) -> list[str]:
        """What the prompts are like, the settings and the strategy to take and why, and what the plan cannot know."""
        return [*_about_pool(self), *_about_settings(self), *_about_strategy(self), *_caveats(self)]


def _about_pool(plan: Plan) -> list[str]:
    k, mixture = plan.config.allocation.k, plan.pool.mixture
    effective = float(ds_costs(mixture, k).effective)
    said = (
        f"{plan.pool.origin}: mean success rate {float(mixture.mean):.2f}; of {k} rollouts {_percent(effective)} of "
        f"the groups are mixed, {_percent(float(mixture.moment(0, k)))} all wrong, "
        f"{_percent(float(mixture.moment(k, 0)))} all right"
    )
    lines = [said]
    if plan.pool.pilot is not None:
        rng = step_rng(plan.config.simulated.first_seed, 0, "plan: bootstrap of the pilot")
        low, high = map(_finely, mixed_share_interval(plan.pool.pilot, k, _REFITS, rng))
        lines.append(f"the pilot puts the share of mixed groups at {low} to {high} (95% interval)")
    if plan.pool.left_out:
        lines.append(f"{plan.pool.left_out} prompts without a rollout left out")
    return lines


def _about_settings(plan: Plan) -> list[str]:
    advice = plan.advice
    if advice is None:
        known = "no group is ever mixed" if plan.pool.pilot is None else "as far as the pilot shows, no group is mixed"
        return [f"{known}: no strategy can train on these prompts"]
    lines = [f"settings: tau_low={advice.tau_low} probe={advice.probe} increment={advice.increment}; {advice.reason}"]
    lines.append(
        f"of the groups that would be mixed, {_percent(advice.lost)} are lost (at most "
        f"{_percent(plan.config.allocation.max_false_abandon)} allowed); what is trained on passes "
        f"{_percent(advice.trained_rate)} of the time, with ds {_percent(advice.ds_rate)}"
    )
    return lines


def _about_strategy(plan: Plan) -> list[str]:
    best = plan.best
    if best is None:
        return []
    ds = 1 if best.tokens_vs_ds is None else best.tokens_vs_ds
    said = f"strategy: {best.label}, {_percent(ds)} of DS's tokens for each effective group"
    if best.strategy == "ds" or 1 - ds < WORTHWHILE:
        said = "strategy: ds; nothing else costs at least 2% less for each effective group"
    if "dps" in best.strategy:
        without = [row for row in plan.predictions if row.strategy == best.strategy.removesuffix("+dps")]
        cheapest = min((row.tokens_vs_ds for row in without if row.tokens_vs_ds is not None), default=None)
        alone = f" (without it {_percent(cheapest)})" if cheapest is not None else ""
        said += f"; its part that predicts{alone} counts on success rates that move slowly"
    return [said]


def _caveats(plan: Plan) -> list[str]:
    lines = [
        "success rates are taken to stay as they are: as the policy learns, groups grow mixed or all right, and a "
        "pilot of a later checkpoint is worth another plan"
    ]
    if any(row.method == "simulated" for row in plan.predictions):
        steps = min(plan.config.simulated.steps, plan.config.steps)
        lines.append(
            f"simulated figures are of the first {steps} steps on {num_prompts(plan.config, plan.pool):,} prompts; dps "
            "predicts better when it has seen more of them"
        )
    pilot, k = plan.pool.pilot, plan.config.allocation.k
    if pilot is not None and k > pilot.n.max():
        lines.append(
            f"k = {k} is more than the {pilot.n.max()} rollouts of the pilot's prompts: what happens beyond them is a "
            "guess that the interval does not cover"
        )
    if plan.pool.pilot is None and "histogram" in plan.pool.origin:
        lines.append(
            "rates of a histogram are taken as true: 0 of 8 is not a rate of 0; a pilot log says how many of how many"
        )
    lines.append("GPU hours are of generation alone, at the given speed; each round also waits for its longest rollout")
    return lines


def _finely(share: float) -> str:
    """In percent, with a decimal where whole percents would say little."""
    near_an_end = min(share, 1 - share)
    return f"{100 * share:.1f}%" if 0.0005 <= near_an_end < 0.1 else _percent(share)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
