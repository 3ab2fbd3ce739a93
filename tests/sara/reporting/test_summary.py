import json
import math

import pytest

from sara.reporting import Series, TrainingRun, notes, rows_as_json, summary_table
from sara.reporting.estimates import Estimate
from tests.sara.reporting import synthetic, worked


def test_the_table_of_a_worked_example():
    base, ds, sara = summary_table(worked.comparison(*worked.SARA, *worked.DS))

    # DS: seed 0 spends 40 + 60 = 100 rollouts, seed 1 60 + 60 = 120; mean 110.
    # Tokens 400 + 600 = 1000 and 1200; mean 1100.
    assert (ds.rollouts, ds.tokens, ds.rollouts_pct, ds.tokens_pct) == (110, 1100, 100, 100)
    # SARA: 37 + 40 = 77 and 88, mean 82.5 = 75% of 110; tokens 600 and 720, mean 660 = 60% of 1100.
    assert (sara.rollouts, sara.tokens) == (82.5, 660)
    assert (sara.rollouts_pct, sara.tokens_pct) == (75, 60)
    assert (sara.seeds, sara.steps, sara.groups) == (2, 2, 6)

    # Seed 0 trains 4 groups all effective and 2 half effective: 5 of 6. Seed 1: all. Mean 11/12.
    assert sara.effective_share == pytest.approx(11 / 12)
    # Seed 0 has (2 + 4) / 2 = 3 rounds a step, seed 1 has 3; 30 s + 40 s a run.
    assert (sara.rounds, sara.wall_s) == (3, 70)

    assert base.strategy == "base"
    assert base.accuracy == Estimate(0.30, 0.27, 0.34)
    assert (base.rollouts, base.gain, base.seeds) == (None, None, 0)
    # Mean of 0.41 and 0.45 is 0.43: 13 points above the base model's 0.30.
    assert sara.accuracy.value == pytest.approx(0.43)
    assert (sara.gain.value, sara.gain.low, sara.gain.high) == (pytest.approx(0.13), None, None)
    assert sara.pass_at_k is None


def test_the_interval_of_a_worked_example():
    _, ds, sara = summary_table(worked.comparison(*worked.DS, *worked.SARA))
    # Both strategies' seeds differ by 0.04: variance 2 * 0.02^2 = 0.0008 each, pooled 0.0008 with 2
    # degrees of freedom. A mean of two seeds: sqrt(0.0008 / 2) = 0.02; t(2, 0.975) = 4.30265, so the
    # seeds' half width is 0.0860531. With the prompts' 0.03: sqrt(0.0009 + 0.0074051) = 0.0911326.
    assert ds.accuracy.high - ds.accuracy.value == pytest.approx(0.0911326, abs=1e-6)
    assert sara.accuracy.value - sara.accuracy.low == pytest.approx(0.0911326, abs=1e-6)


def test_one_seed_has_the_interval_of_its_prompts():
    row = summary_table(worked.comparison(worked.SARA[0]))[1]
    assert (row.accuracy.low, row.accuracy.high) == pytest.approx((0.38, 0.44))


def test_a_single_seed_borrows_the_spread_of_the_others():
    _, ds, sara = summary_table(worked.comparison(*worked.DS, worked.SARA[0]))
    # Pooled from DS alone: variance 0.0008, 1 degree of freedom, t(1, 0.975) = 12.7062; one seed:
    # 12.7062 * 0.0282843 = 0.359386; with the prompts' 0.03: 0.360636.
    assert sara.accuracy.high - sara.accuracy.value == pytest.approx(0.360636, abs=1e-5)
    assert ds.accuracy.value == pytest.approx(0.42)


def test_an_interval_never_leaves_zero_to_one():
    runs = (worked.run("sara", 0, (8, 8), (9, 9), 0.99), worked.run("sara", 1, (8, 8), (9, 9), 0.89))
    accuracy = summary_table(worked.comparison(*runs))[1].accuracy
    assert accuracy.high == 1.0
    assert 0.0 <= accuracy.low < accuracy.value


def test_the_gain_is_the_paired_one_with_its_own_interval():
    runs = (worked.with_gain(worked.SARA[0], 0.11, 0.01), worked.with_gain(worked.SARA[1], 0.15, 0.03))
    row = summary_table(worked.comparison(*runs))[1]
    # Mean of 0.11 and 0.15. Seeds: variance 0.0008, 1 degree of freedom, t(1, 0.975) = 12.7062, two seeds:
    # 12.7062 * sqrt(0.0008 / 2) = 0.254124. Prompts: mean half width 0.02. Together sqrt(0.0645790 + 0.0004).
    assert row.gain.value == pytest.approx(0.13)
    assert (row.gain.low, row.gain.high) == pytest.approx((0.13 - 0.254910, 0.13 + 0.254910), abs=1e-5)
    assert row.gain.low < 0  # unlike a score


def test_one_seed_s_gain_has_the_interval_of_its_prompts():
    row = summary_table(worked.comparison(worked.with_gain(worked.SARA[0], -0.02, 0.03)))[1]
    assert (row.gain.value, row.gain.low, row.gain.high) == pytest.approx((-0.02, -0.05, 0.01))


def test_a_run_without_its_paired_gain_leaves_the_plain_difference():
    row = summary_table(worked.comparison(worked.with_gain(worked.SARA[0], 0.5, 0.03), worked.SARA[1]))[1]
    assert row.gain == Estimate(pytest.approx(0.13))


def test_a_gain_of_another_step_than_the_accuracy_is_not_shown_beside_it():
    run = worked.with_metrics(worked.SARA[0], eval__gain=(0.5, math.nan))
    assert summary_table(worked.comparison(run))[1].gain == Estimate(pytest.approx(0.11))


def test_without_ds_the_share_columns_are_empty_and_the_caption_says_why():
    comparison = worked.comparison(*worked.SARA)
    row = summary_table(comparison)[1]
    assert (row.rollouts_pct, row.tokens_pct) == (None, None)
    assert row.rollouts == 82.5
    assert any("DS is not part of this comparison" in note for note in notes(comparison))


def test_strategies_come_in_their_fixed_order_and_unknown_ones_last():
    runs = [worked.run(name, 0, (8, 8), (9, 9), 0.4) for name in ("zeta", "sara+dps", "sara", "ds", "uniform")]
    rows = summary_table(worked.comparison(*runs))
    assert [row.strategy for row in rows] == ["base", "uniform", "ds", "sara", "sara+dps", "zeta"]


def test_the_json_holds_the_table_s_figures():
    rows = summary_table(synthetic.comparison())
    read_back = json.loads(json.dumps(rows_as_json(rows), allow_nan=False))
    assert [row["strategy"] for row in read_back] == [row.strategy for row in rows]
    assert read_back[2]["rollouts"] == rows[2].rollouts
    assert read_back[2]["accuracy"]["low"] == rows[2].accuracy.low


def test_unfinished_runs_and_unequal_lengths_are_said():
    metrics = {"rollouts/generated": Series((1,), (37.0,))}
    killed = TrainingRun("sara", 0, metrics, status="KILLED")
    said = " ".join(notes(worked.comparison(worked.DS[0], killed)))
    assert "SARA seed 0 (killed)" in said
    assert "different numbers of steps" in said
