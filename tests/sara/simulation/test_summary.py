from __future__ import annotations

import json

import numpy as np
import pytest

from sara.simulation import figures, report, tables
from sara.simulation.config import SimulateConfig
from sara.simulation.run import METRICS, Run, Trace, plan_runs
from sara.simulation.summary import summarise


def trace(run: Run, seed: int, rollouts, effective, trained=None, tokens=None, rounds=(1, 1)) -> Trace:
    steps = {metric: np.zeros(2) for metric in METRICS}
    steps |= {
        "rollouts/generated": np.array(rollouts, float),
        "tokens/generated": np.array(tokens or [10 * r for r in rollouts], float),
        "groups/effective": np.array(effective, float),
        "groups/trained": np.array(trained or effective, float),
        "rounds": np.array(rounds, float),
        "reward/trained_mean": np.array([0.4, 0.6]),
    }
    return Trace(run, seed, steps)


def worked() -> tuple[SimulateConfig, list[Trace]]:
    """Two steps, two seeds, B = 2 groups of k = 8. DS: 160 rollouts for 4 groups, then 80 for 4; SARA: 60, then 60."""
    config = SimulateConfig(strategies=("ds", "sara"), steps=2, num_seeds=2, allocation={"groups_per_step": 2})
    ds, sara = plan_runs(config)
    traces = [
        trace(ds, 0, [100, 60], [2, 2]),
        trace(ds, 1, [40, 40], [2, 2]),
        trace(sara, 0, [30, 30], [2, 2], rounds=(2, 3)),
        trace(sara, 1, [30, 30], [2, 2], rounds=(3, 4), tokens=[100, 100]),
    ]
    return config, traces


def test_a_summary_by_hand():
    """Rollouts per group: DS 240 / 8 = 30, SARA 120 / 8 = 15, half of it. SARA's tokens: 800 / 8 = 100. A step of DS:
    240 / (4 steps * 16). Leaving out a seed, DS costs 80/4 = 20 or 160/4 = 40: error sqrt(1 * 100) = 10. The ratio:
    SARA's 15 over 20 or 40 is 0.75 or 0.375, error 0.1875."""
    config, traces = worked()
    ds, sara = summarise(config, traces)
    assert ds.rollouts_per_group == pytest.approx((30, 10))
    assert sara.rollouts_per_group == pytest.approx((15, 0))
    assert sara.rollouts_vs_ds == pytest.approx((0.5, 0.1875))
    assert sara.tokens_per_group.value == pytest.approx(100)
    assert ds.step_rollouts_vs_uniform.value == pytest.approx(240 / 64)
    assert sara.rounds.value == pytest.approx(3)
    assert sara.trained_rate == pytest.approx(0.5)
    assert sara.rollouts_vs_uniform is None and sara.rollouts_vs_oracle is None
    assert (ds.tau_low, sara.tau_low, sara.probe) == (None, 0.5, 4)
    assert ds.exact_rollouts_per_group == pytest.approx(29.57, abs=0.01)
    assert sara.exact_rollouts_per_group == pytest.approx(24.53, abs=0.01)  # 24.46 without audits


def test_a_closed_form_is_given_only_where_the_rounds_are_known():
    settings = {"strategies": ("sara",), "steps": 2, "num_seeds": 1}
    costs = []
    for probe, increment in ((3, 3), ("auto", "auto"), (3, "auto"), ("auto", 3)):
        config = SimulateConfig(**settings, allocation={"probe": probe, "increment": increment, "audit_rate": 0})
        costs.append(summarise(config, [trace(plan_runs(config)[0], 0, [9, 9], [1, 1])])[0].exact_rollouts_per_group)
    # After 6 (rounds end at 3 and 6) and after 4, where tau_low = 0.5 abandons.
    assert costs[:2] == pytest.approx([26.922, 24.459], abs=0.001)
    assert costs[2:] == [None, None]


def test_one_seed_has_no_error_and_no_group_no_cost():
    config = SimulateConfig(strategies=("ds",), steps=2, num_seeds=1, population={"drift": 0.1})
    row = summarise(config, [trace(plan_runs(config)[0], 0, [100, 60], [0, 0], trained=[0, 0])])[0]
    assert row.rollouts_per_group is None and row.rounds == (1, None)
    assert row.exact_rollouts_per_group is None  # the policy moves
    plain = row.as_json()
    assert plain["rollouts_per_group"] is None and plain["effective_share"] is None
    json.dumps(plain, allow_nan=False)


def test_references_are_of_the_same_group_size():
    config = SimulateConfig(strategies=("ds", "sara"), steps=2, num_seeds=1, grid={"k": [4, 8], "probe": [0.5]})
    costs = {("ds", 4): 40, ("ds", 8): 100, ("sara", 4): 30, ("sara", 8): 50}
    runs = plan_runs(config)
    rows = summarise(config, [trace(run, 0, [costs[run.strategy, run.allocation.k]] * 2, [2, 2]) for run in runs])
    assert [(row.k, row.rollouts_vs_ds.value) for row in rows if row.strategy == "sara"] == [(4, 0.75), (8, 0.5)]


def test_the_table_shows_what_varies_and_markdown_says_the_same():
    config, traces = worked()
    rows = summarise(config, traces)
    text, markdown = tables.render_text(config, rows), tables.render_markdown(config, rows)
    assert "tau_low" not in text and "oracle" not in text
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("sara")] == [
        ["sara", "8", "15.0", "±0.0"]
    ]
    sara = markdown.splitlines()[3].split("|")
    assert [cell.strip() for cell in sara[1:7]] == ["sara", "8", "15.0 ±0.0", "24.5", "50.0 ±18.8", "100"]
    assert max(map(len, tables.render_text(config, rows, terminal_width=60).splitlines())) < 200  # with its escapes
    varied = config.model_copy(update={"grid": config.grid.model_copy(update={"tau_low": (0.4, 0.5)})})
    assert "tau_low" in tables.render_text(varied, rows)


def test_a_narrow_terminal_loses_columns_and_no_digits():
    config, traces = worked()
    rows = summarise(config, traces)
    narrow = [column.title for column in tables._fitting(tables.columns_for(config, rows), rows, 70)]
    assert "rollouts" in narrow and "% of\nDS" in narrow and "short\nsteps" not in narrow
    assert "…" not in tables.render_text(config, rows, terminal_width=80)


def test_a_simulation_is_written_whole(tmp_path):
    config, traces = worked()
    rows = summarise(config, traces)
    paths = report.write_simulation(tmp_path, config, rows, traces)
    assert [path.name for path in paths] == ["simulation.json", "table.md", "costs.png", "steps.png"]
    stored = json.loads(paths[0].read_text())
    assert stored["rows"][1]["rollouts_vs_ds"] == pytest.approx(0.5)
    assert SimulateConfig(**stored["config"]) == config
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths[2:])


def test_figures_show_every_row_and_nothing_without_one():
    config, traces = worked()
    rows = summarise(config, traces)
    costs = figures.draw_costs(config, rows)
    assert [label.get_text() for label in costs.axes[0].get_yticklabels()] == ["ds", "sara"]
    assert figures.draw_grid(config, rows) is None
    assert figures.draw_costs(config, []) is None


def test_lines_of_the_grid_join_the_rows_that_differ_in_one_setting():
    config = SimulateConfig(
        strategies=("ds", "sara"), steps=2, num_seeds=1, grid={"k": [8, 16], "tau_low": [0.4, 0.5], "probe": [0.5]}
    )
    runs = plan_runs(config)
    rows = summarise(config, [trace(run, 0, [10 * i + 10, 20], [2, 2]) for i, run in enumerate(runs)])
    lines = figures._grid_lines(config, "tau_low", rows)
    assert [(key, list(group)) for key, group in lines] == [
        (("sara", "k=8"), [0.4, 0.5]),
        (("sara", "k=16"), [0.4, 0.5]),
    ]
    lines = figures._grid_lines(config, "k", rows)
    assert [(key, list(group)) for key, group in lines] == [(("sara", "0.4"), [8, 16]), (("sara", "0.5"), [8, 16])]
    # Rollouts of the six runs: 30 and 40 (ds), then 50, 60 at k = 8 and 70, 80 at k = 16.
    assert lines[0][1] == {8: pytest.approx(100 * 50 / 30), 16: pytest.approx(100 * 70 / 40)}
    drawn = figures.draw_grid(config, rows)
    assert [axes.get_xlabel() for axes in drawn.axes] == ["k", "tau_low"]
