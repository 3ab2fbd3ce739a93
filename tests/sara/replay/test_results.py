"""The grid, its intervals and the recommendation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.engines.population import PopulationSource
from sara.replay import Grid, Setting, replay_grid
from sara.replay.recommend import notes, recommend, warnings
from sara.replay.results import cost_of, undominated
from sara.replay.sums import MAX_BUCKETS, CellSums


def drawn_groups(rates, k: int, seed: int = 0) -> list[np.ndarray]:
    return list((np.random.default_rng(seed).random((len(rates), k)) < np.asarray(rates)[:, None]).astype(int))


@pytest.fixture(scope="module")
def log(make_log):
    """1000 prompts, rates from Beta(0.1, 0.3), two groups of 8 each, in 20 steps; wrong rollouts twice as long."""
    rates = np.tile(PopulationSource.from_beta(1000, 0.1, 0.3, 0).success_rates, 2)
    groups = drawn_groups(rates, 8)
    lengths = [np.where(group, 300, 600) for group in groups]
    return make_log(groups, lengths, steps=np.arange(2000) // 100, prompts=np.arange(2000) % 1000)


def test_two_groups_by_hand(make_log):
    # k = 4, dropped after 2 equal outcomes. The first group, one right of four, is dropped in half of its orders:
    # 2 or 4 rollouts, 3 on average; right ones of length 10, 0.5 of them; wrong ones of mean 30, 2.5 of them: 80.
    # The second is all wrong: dropped after 2, length 100. DS: 8 rollouts, 100 + 200 of length, 1 effective group.
    log = make_log([[0, 0, 1, 0], [0, 0, 0, 0]], lengths=[[20, 30, 10, 40], [50, 50, 50, 50]])
    grid = replay_grid(log, Grid((4,), (0.5,), (2,)))
    (base,), (result,) = grid.baselines, grid.settings
    assert (base.groups, base.rollouts, base.effective, base.lengths) == (2, 8, 1.0, 300.0)
    assert (base.effective_share.value, base.rollouts_per_group.value) == (0.5, 8.0)
    assert (result.rollouts, result.kept) == (5.0, 0.5)
    assert result.generated.value == pytest.approx(5 / 8)
    assert result.cost.value == pytest.approx((5 / 0.5) / (8 / 1))
    assert result.generated_length.value == pytest.approx(180 / 300)
    assert result.length_cost.value == pytest.approx((180 / 0.5) / (300 / 1))
    assert result.lost.value == pytest.approx(0.5)
    assert result.false_abandonment.value == pytest.approx(0.5 / 1.5)
    assert result.success_rate == pytest.approx(0.25)
    assert result.rounds == pytest.approx(1.5)  # two if the first group is kept, else one
    assert result.cost.low is None  # two prompts say nothing about others


def test_groups_shorter_than_k_are_left_out_at_that_k_only(make_log):
    log = make_log([[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 0]])
    four, two = replay_grid(log, Grid((2, 4), (0.7,), (1,))).baselines
    assert (four.k, four.groups, two.k, two.groups) == (4, 2, 2, 3)
    assert "left out: 1 groups of fewer than 4 rollouts, at k = 4" in notes(log)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_groups_changes_nothing(make_log, seed):
    rng = np.random.default_rng(seed)
    groups = drawn_groups(rng.beta(0.4, 0.4, 40), 6, seed)
    lengths = [rng.integers(1, 100, 6) for _ in groups]
    steps, prompts = rng.integers(0, 4, 40), rng.permutation(40)
    moved = rng.permutation(40)
    one = make_log(groups, lengths, steps, prompts)
    other = make_log([groups[i] for i in moved], [lengths[i] for i in moved], steps[moved], prompts[moved])
    grid = Grid((6, 3), taus=(0.3, 0.5), probes=(2,))
    for found, again in zip(replay_grid(one, grid).settings, replay_grid(other, grid).settings, strict=True):
        assert found.setting == again.setting
        for name in ("generated", "cost", "length_cost", "lost"):
            ends = [(i.value, i.low, i.high) for i in (getattr(found, name), getattr(again, name))]
            assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_settings_that_fare_alike_are_reported_once_with_the_fewest_rounds(log):
    results = replay_grid(log, Grid((8,)), resamples=0).settings
    ways = [(result.drops_fail, result.drops_pass) for result in results]
    assert len(set(ways)) == len(ways)
    after_four = next(result for result in results if result.drops_fail == 4)
    assert (after_four.setting.probe, after_four.rounds) == (4, pytest.approx(2, abs=1e-3))
    one_by_one = replay_grid(log, Grid((8,), (0.5,), (1,)), resamples=0).settings[0]
    assert one_by_one.cost.value == pytest.approx(after_four.cost.value)
    assert one_by_one.rounds > 4


def test_stopping_as_soon_as_mixed_generates_less_than_filling(log):
    filled, stopped = (
        replay_grid(log, Grid((8,), (0.5,), (2,), on_commit=mode), resamples=0).settings[0] for mode in ("fill", "stop")
    )
    assert stopped.rollouts < filled.rollouts and stopped.kept == filled.kept


def test_intervals_are_as_wide_as_theory_says_with_and_without_buckets(make_log):
    # The share of effective groups is a mean of independent coins: 1.96 sqrt(p (1 - p) / n).
    for prompts in (600, 8 * MAX_BUCKETS):
        log = make_log(drawn_groups(np.full(prompts, 0.3), 2))
        share = replay_grid(log, Grid((2,), (0.9,), (1,)), resamples=2000).baselines[0].effective_share
        expected = 1.96 * np.sqrt(share.value * (1 - share.value) / prompts)
        assert (share.high - share.low) / 2 == pytest.approx(expected, rel=0.08)
        assert share.low < share.value < share.high


def test_the_same_groups_logged_again_narrow_no_interval(make_log):
    groups = drawn_groups(np.random.default_rng(1).beta(0.3, 0.5, 300), 4)
    once = make_log(groups)
    thrice = make_log(groups * 3, steps=np.repeat([0, 1, 2], 300), prompts=np.tile(np.arange(300), 3))
    grid = Grid((4,), (0.5,), (2,))
    one, three = (replay_grid(found, grid).settings[0].cost for found in (once, thrice))
    assert one.value == pytest.approx(three.value)
    assert (three.high - three.low) == pytest.approx(one.high - one.low, rel=1e-9)


def test_intervals_cover_the_truth_about_as_often_as_they_say(make_log):
    rates = np.random.default_rng(2).beta(0.3, 0.5, 100_000)
    truth = float((1 - rates**4 - (1 - rates) ** 4).mean())
    covered = []
    for seed in range(120):
        mine = np.random.default_rng(seed).choice(rates, 80)
        sums = CellSums(make_log(drawn_groups(mine, 4, seed)), 4, resamples=300, seed=seed)
        is_mixed = ((sums.successes > 0) & (sums.successes < 4)).astype(float)
        share = sums.ratio(sums.groups(is_mixed), sums.groups(np.ones(is_mixed.size)))
        covered.append(share.low <= truth <= share.high)
    assert 0.88 < np.mean(covered) < 0.99


def test_the_recommendation_is_the_cheapest_within_its_caps(log):
    grid = replay_grid(log, Grid((8, 4)))
    for max_lost in (0.0, 0.06, 0.15, 0.3, 1.0):
        found = recommend(grid, "tokens", max_lost, max_rounds=4)
        allowed = [r for r in grid.settings if r.setting.k == 8 and r.lost.value <= max_lost and r.rounds <= 4]
        cheapest = min((cost_of(result, by_length=True) for result in allowed), default=1)
        if cheapest >= 1 - 1e-9:
            assert found.chosen is None and found.reason.startswith("Keep DS at k = 8")
        else:
            assert cost_of(found.chosen, by_length=True) == cheapest
            assert f"{cheapest:.1%}" in found.reason and "tokens" in found.reason
    assert recommend(grid, "characters", 0.3, 4).reason.count("rollouts") == 1
    assert recommend(grid, None, 0.3, max_rounds=1.5).chosen is None


def test_where_sara_costs_more_the_advice_is_to_keep_ds(make_log):
    rates = np.random.default_rng(0).random(3000)  # uniform rates: dropping after 4 of 8 costs 4% more than DS
    grid = replay_grid(make_log(drawn_groups(rates, 8)), Grid((8,), (0.5,), (4,)))
    assert grid.settings[0].cost.value == pytest.approx(1.04, abs=0.02)
    assert recommend(grid, None, 1.0, 4).chosen is None


def test_what_is_never_cheaper_at_less_loss_is_not_shown(log):
    results = replay_grid(log, Grid((8,)), resamples=0).settings
    shown = undominated(results)
    points = [(cost_of(result), result.lost.value) for result in shown]
    assert points == sorted(points) and [lost for _, lost in points] == sorted(
        (lost for _, lost in points), reverse=True
    )
    for result in results:
        assert any(cost <= cost_of(result) and lost <= result.lost.value for cost, lost in points)


def test_a_filtered_log_a_cut_log_and_a_small_log_are_pointed_out(make_log, log):
    assert warnings(log, replay_grid(log, Grid((8,)))) == []
    filtered = make_log([[0, 1, 1, 0]] * 200)
    assert any("before the filter" in line for line in warnings(filtered, replay_grid(filtered, Grid((4,)))))
    stopped = make_log([[0, 0]] * 40 + [[0, 1, 1, 0]] * 60)
    found = warnings(stopped, replay_grid(stopped, Grid((4,))))
    assert any("40 of 100 groups have fewer than 4 rollouts" in line for line in found)
    few = make_log([[0, 1, 0, 0]] * 3 + [[0, 0, 0, 0]] * 9)
    assert any("12 different prompts" in line for line in warnings(few, replay_grid(few, Grid((4,)))))


@pytest.mark.parametrize(
    ("grid", "line"),
    [
        (Grid((3,)), "k = 3; expected 2 to 2"),
        (Grid((1,)), "k = 1; expected 2 to 2"),
        (Grid((2,), probes=(2, 4)), "probe 2, 4 leaves nothing to decide at k = 2"),
        (Grid((2,), taus=(1.5,)), "tau_low = 1.5"),
        (Grid((2,), alpha0=-1.0), "alpha0 = -1.0"),
        (Grid((2,), on_commit="fil"), "on_commit = 'fil'"),
    ],
)
def test_a_grid_that_cannot_be_tried_is_refused(make_log, grid, line):
    with pytest.raises(ValueError, match=line):
        replay_grid(make_log([[0, 1], [0, 0]]), grid)


def test_a_log_without_an_effective_group_has_nothing_to_keep(make_log):
    with pytest.raises(ValueError, match="none of the 2 groups of the log is effective at k = 2"):
        replay_grid(make_log([[0, 0], [1, 1]]), Grid((2,)))


def test_overrides_are_what_training_takes():
    setting = Setting(8, 0.4, 5, 5, alpha0=0.5, on_commit="stop")
    assert setting.overrides().split() == [
        "allocation.k=8",
        "allocation.tau_low=0.4",
        "allocation.probe=5",
        "allocation.increment=5",
        "allocation.alpha0=0.5",
        "allocation.on_commit=stop",
    ]
