from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from sara.config_file import ConfigError, load_config
from sara.planning import report
from sara.planning.config import PlanConfig
from sara.planning.pilot import Counts, fit_rates
from sara.planning.plan import Plan
from sara.planning.predict import predict
from sara.planning.reading import Pool, read_pool
from sara.planning.recommend import recommend
from sara.simulation.config import TokensConfig
from sara.simulation.exact import BoundaryPair, cheapest_pair, ds_costs, fill_costs, threshold_boundaries
from sara.simulation.mixtures import POPULATIONS, RateMixture

QUICK = ("simulated.steps=10", "simulated.num_seeds=2", "prompts=2000")


def configured(*overrides: str) -> PlanConfig:
    return load_config(PlanConfig, None, [*QUICK, *overrides])


def planned(config: PlanConfig, pool: Pool | None = None) -> Plan:
    pool = pool or read_pool(config.source)
    advice = recommend(pool.mixture, config.allocation, config.tokens)
    return Plan(config, pool, advice, predict(config, pool, advice))


def test_uniform_and_dynamic_sampling_by_hand():
    """Half the prompts at rate 1/2, half at 0; k = 2, B = 2. A group is mixed with chance 1/4. Uniform: 4 rollouts,
    half a group. DS: chunks until 2 of the 2m groups are mixed: sum over m of P(Binomial(2m, 1/4) < 2). A rollout is
    right with chance 1/4: 0.25 * 100 + 0.75 * 200 = 175 tokens."""
    config = configured(
        "strategies=uniform,ds",
        "steps=36",
        "allocation.k=2",
        "allocation.groups_per_step=2",
        "allocation.probe=1",
        "allocation.max_gen_batches=60",
        "allocation.max_rounds=60",
        "tokens.right=100",
        "tokens.wrong=200",
        "machine.tokens_per_s=7",
        "machine.gpus=2",
    )
    pool = Pool(RateMixture.of([{"rate": 0.5}, {"rate": 0}]), None, "worked")
    uniform, ds = predict(config, pool, None)
    chunks = sum(binom.cdf(1, 2 * m, 0.25) for m in range(200))
    assert (uniform.method, uniform.rollouts, uniform.groups, uniform.rounds) == ("exact", 4, pytest.approx(0.5), 1)
    assert uniform.tokens == pytest.approx(4 * 175) and uniform.rollouts_per_group == pytest.approx(8)
    assert ds.method == "exact" and ds.rounds == pytest.approx(chunks) and ds.groups == 2
    assert ds.rollouts == pytest.approx(4 * chunks)
    assert ds.total_tokens == pytest.approx(36 * 4 * chunks * 175)
    assert ds.gpu_hours == pytest.approx(ds.total_tokens / 7 / 3600)
    assert ds.hours == pytest.approx(ds.gpu_hours / 2)
    assert uniform.tokens_vs_ds == pytest.approx(8 / (2 * chunks))


def test_the_closed_forms_are_what_the_simulator_measures():
    """A budget that never binds makes the planner simulate: the same figures within 4 standard errors."""
    exact = predict(
        configured("strategies=uniform,ds", "simulated.steps=40", "simulated.num_seeds=6"), read_pool("hard"), None
    )
    played = predict(
        configured("strategies=uniform,ds", "simulated.steps=40", "simulated.num_seeds=6", "allocation.budget=100000"),
        read_pool("hard"),
        None,
    )
    assert {row.method for row in exact} == {"exact"} and {row.method for row in played} == {"simulated"}
    assert played[0].rollouts == exact[0].rollouts == 128
    assert played[1].rollouts == pytest.approx(exact[1].rollouts, abs=4 * played[1].rollouts_error)
    assert played[1].tokens == pytest.approx(exact[1].tokens, rel=0.08)
    assert 0 < played[1].rollouts_error < 0.05 * played[1].rollouts


def test_a_step_that_may_miss_its_target_is_simulated():
    pool = Pool(RateMixture.of([{"weight": 97, "rate": 0}, {"weight": 3, "rate": 0.5}]), None, "hardly any")
    config = configured("strategies=ds", "allocation.max_gen_batches=5")
    row = predict(config, pool, None)[0]
    assert row.method == "simulated" and row.groups < 16
    assert row.rollouts == pytest.approx(5 * 16 * 8, rel=0.05)


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("k", [4, 8, 32])
def test_advice_is_within_its_cap_and_costs_no_more_than_ds_or_any_threshold(name, k):
    config = configured(f"allocation.k={k}", "allocation.probe=2", "allocation.max_false_abandon=0.2")
    advice = recommend(POPULATIONS[name], config.allocation, TokensConfig())
    assert 0 <= advice.lost <= 0.2 + 1e-9
    whole = ds_costs(POPULATIONS[name], k).rollouts_per_group
    found = fill_costs(POPULATIONS[name], k, *advice.boundaries).rollouts_per_group
    assert advice.saved == pytest.approx(1 - found / whole, abs=1e-12) and advice.saved >= 0
    for tau_low in np.linspace(0.02, 0.98, 49):
        fixed = fill_costs(POPULATIONS[name], k, *threshold_boundaries(k, tau_low))
        if fixed.lost <= 0.2:
            assert 1 - fixed.rollouts_per_group / whole <= advice.fixed_saved + 1e-9
            assert 1 - fixed.rollouts_per_group / whole <= advice.saved + 0.02


def test_advice_for_half_the_groups_mixed_by_hand():
    """Every rate 0 or 1/2, k = 2, so the only rule between DS and nothing is to abandon after one failure or one pass:
    that commits no group at all. DS it is, which 'auto' falls back to."""
    config = configured("allocation.k=2", "allocation.probe=1", "allocation.max_false_abandon=1")
    advice = recommend(RateMixture.of([{"rate": 0.5}, {"rate": 0}]), config.allocation, TokensConfig())
    # Abandoning after one failure only (f = 1, p = 2): 3/4 * 1 + 1/4 * 2 = 1.25 rollouts for a chance of 1/8, so 10 a
    # group. DS: 2 rollouts for 1/4, so 8 a group.
    assert advice.tau_low == "auto" and advice.boundaries == BoundaryPair(2, 2) and advice.saved == 0


def test_a_fixed_threshold_is_advised_where_nothing_is_gained_by_two_boundaries():
    """Symmetric rates: failures and passes call for the same boundary, so a threshold does as well as any pair, and its
    probe is the boundary."""
    mixture = RateMixture.of([{"weight": 6, "rate": 0}, {"weight": 6, "rate": 1}, {"weight": 3, "rate": 0.5}])
    config = configured("allocation.max_false_abandon=0.3")
    advice = recommend(mixture, config.allocation, config.tokens)
    best = cheapest_pair(mixture, 8, 0.3)
    assert best.fails == best.passes == advice.probe
    assert threshold_boundaries(8, advice.tau_low) == best == advice.boundaries
    assert advice.increment == 8 - best.fails and advice.saved > 0.2
    allocation = advice.apply_to(config.allocation)
    assert (allocation.tau_low, allocation.probe) == (advice.tau_low, advice.probe)


def test_tokens_as_the_cost_make_failures_dearer():
    """Wrong rollouts ten times as long: with tokens as the cost the advice gives up failures no later."""
    advices = [
        recommend(
            POPULATIONS["saturated"],
            configured(f"allocation.cost={cost}", "allocation.max_false_abandon=0.5").allocation,
            TokensConfig(right=100, wrong=1000),
        )
        for cost in ("rollouts", "tokens")
    ]
    assert advices[1].boundaries.fails <= advices[0].boundaries.fails
    assert advices[1].boundaries.passes >= advices[0].boundaries.passes
    assert advices[1].boundaries != advices[0].boundaries


def test_a_plan_predicts_for_each_strategy_and_for_the_advised_settings():
    plan = planned(configured("source=saturated"))
    assert [row.label for row in plan.predictions] == [
        *("uniform", "ds", "dps", "ds+dps", "sara", "sara+dps"),
        *("sara, advised", "sara+dps, advised"),
    ]
    by_label = {row.label: row for row in plan.predictions}
    assert by_label["ds"].tokens_vs_ds == 1
    assert by_label["sara, advised"].tokens_vs_ds < by_label["sara"].tokens_vs_ds < 0.9
    assert plan.best.strategy in ("sara", "sara+dps")
    assert 22 < by_label["sara"].rollouts_per_group < 30
    assert any("settings: tau_low=auto" in line for line in plan.sentences)
    assert any(line.startswith(f"strategy: {plan.best.label}") for line in plan.sentences)


def test_without_ds_its_costs_are_still_the_reference():
    rows = planned(configured("strategies=uniform", "source=hard")).predictions
    assert len(rows) == 1 and 0.8 < rows[0].tokens_vs_ds < 1


def test_prompts_that_teach_nothing_are_named():
    plan = planned(
        configured("strategies=ds,sara", "simulated.steps=1"), Pool(RateMixture.of([{"rate": 0}]), 50, "zeros")
    )
    assert plan.best is None and plan.advice is None
    assert any("no group is ever mixed" in line for line in plan.sentences)
    assert "–" in report.render_text(plan)
    json.dumps(report.as_json(plan), allow_nan=False)


@pytest.mark.parametrize("successes", [0, 8])
def test_a_pilot_without_a_mixed_group_plans_for_none(successes):
    """The fit leaves a share of 1e-6 mixed, for which no cost of a group is worth a figure."""
    counts = Counts(np.array([8]), np.array([successes]), np.array([100.0]))
    plan = planned(
        configured("strategies=uniform,ds,sara", "simulated.steps=1"),
        Pool(fit_rates(counts), None, "pilot of 100", counts),
    )
    assert plan.best is None and plan.advice is None
    assert [(row.groups, row.rollouts_per_group, row.tokens_vs_ds) for row in plan.predictions] == [(0, None, None)] * 3
    said = "\n".join(plan.sentences)
    assert "mixed groups at 0% to 3.6% (95% interval)" in said
    assert "as far as the pilot shows, no group is mixed" in said and "lost" not in said


def test_a_pilot_has_an_interval_and_its_limits():
    counts = Counts(np.array([8, 8, 8]), np.array([0, 3, 8]), np.array([60.0, 25.0, 15.0]))
    pool = Pool(fit_rates(counts), None, "pilot of 100", counts, left_out=3)
    plan = planned(configured("strategies=uniform", "allocation.k=16"), pool)
    said = "\n".join(plan.sentences)
    assert "(95% interval)" in said and "3 prompts without a rollout left out" in said
    assert "k = 16 is more than the 8 rollouts" in said
    assert "k = 8 is more" not in "\n".join(planned(configured("strategies=uniform"), pool).sentences)


def test_a_histogram_says_how_many_prompts_there_are(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text("rate,count\n0,150\n0.5,50\n")
    plan = planned(load_config(PlanConfig, None, [f"source={path}", *QUICK[:2], "strategies=sara"]))
    assert report.as_json(plan)["prompts"] == 200
    assert any("rates of a histogram are taken as true" in line for line in plan.sentences)


def test_a_plan_is_written_whole(tmp_path):
    plan = planned(configured("strategies=uniform,ds"))
    paths = report.write_plan(tmp_path, plan)
    assert [path.name for path in paths] == ["plan.json", "plan.md", "plan.png"]
    stored = json.loads(paths[0].read_text())
    assert stored["predictions"][1]["rollouts"] == pytest.approx(plan.predictions[1].rollouts)
    assert PlanConfig(**stored["config"]) == plan.config
    assert paths[1].read_text().startswith("| strategy | rollouts a step |")
    assert [label.get_text() for label in report.draw(plan).axes[0].get_yticklabels()] == ["uniform", "ds"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("machine.tokens_per_s=0", r"machine\.tokens_per_s = 0; expected a number in \(0, inf\)"),
        ("machine.gpus=1.5", r"machine\.gpus = 1\.5; expected an integer"),
        ("strategies=oracle", r"strategy 'oracle' is unknown"),
        ("prompts=0", r"prompts = 0"),
        ("tokens.rigth=3", r"unknown key tokens\.rigth; did you mean tokens\.right\?"),
    ],
)
def test_a_mistake_is_one_line(override, message):
    with pytest.raises(ConfigError, match=message):
        configured(override)


@pytest.mark.parametrize(("advised_cost", "is_advised"), [(99, True), (101, True), (103, False)])
def test_the_advised_settings_win_unless_they_cost_two_percent_more(advised_cost, is_advised):
    plan = planned(configured("strategies=ds,sara", "simulated.steps=1"))
    costs = {"ds": 150.0, "sara": 100.0, "sara, advised": float(advised_cost)}
    rows = [replace(row, tokens_per_group=costs[row.label]) for row in plan.predictions]
    best = replace(plan, predictions=rows).best
    assert (best.strategy, best.is_advised) == ("sara", is_advised)
