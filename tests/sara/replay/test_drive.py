"""Driving the collection loop over a log: what is drawn is what is logged, and sampled orders agree with averages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation import Draws, DynamicSamplingAllocator, FixedAllocator, SequentialAllocator
from sara.replay import Grid, LoggedOrder, LoggedRollouts, Setting, drive, replay_grid, shuffled_order

ragged_logs = st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=9), min_size=1, max_size=30)


def test_a_worked_log_in_logged_order(make_log):
    # k = 4, probe 2, dropped after 2 equal outcomes (p_eff 0.4 < 0.5).
    log = make_log(
        [
            [0, 0, 1, 0],  # dropped after 2, effective in the log: falsely
            [0, 1, 0, 0],  # mixed at 2, filled: 4
            [1, 1, 1, 1],  # dropped after 2, rightly
            [0, 0, 0, 0, 1],  # dropped after 2; its first 4 are all wrong: rightly
        ],
        lengths=[[5, 6, 7, 8], [1, 2, 3, 4], [10, 10, 10, 10], [9, 9, 9, 9, 9]],
        steps=[0, 0, 0, 1],
    )
    driven = drive(log, Setting(4, tau_low=0.5, probe=2, increment=2).allocator())
    assert (driven.opened, driven.trained, driven.effective) == (4, 1, 1)
    assert (driven.abandoned, driven.false_abandoned) == (3, 1)
    assert driven.rollouts == 2 + 4 + 2 + 2
    assert driven.lengths == (5 + 6) + (1 + 2 + 3 + 4) + (10 + 10) + (9 + 9)
    assert driven.rounds == (2 + 1) / 2
    assert driven.lost == 1 / 2

    ds = drive(log, DynamicSamplingAllocator(4))
    assert (ds.rollouts, ds.effective, ds.lengths) == (16, 2, 26 + 10 + 40 + 36)
    uniform = drive(log, FixedAllocator(4))
    assert (uniform.rollouts, uniform.trained, uniform.effective) == (16, 4, 2)


def test_a_target_stops_a_step_and_a_step_may_run_out_of_prompts(make_log):
    log = make_log([[0, 1], [0, 1], [1, 0], [0, 0], [0, 1]], steps=[0, 0, 0, 1, 1])
    driven = drive(log, DynamicSamplingAllocator(2), target=2)
    assert driven.outcomes == {"target": 1, "prompts": 1}
    assert (driven.opened, driven.trained, driven.effective) == (4, 3, 3)


@settings(max_examples=40, deadline=None)
@given(groups=ragged_logs, k=st.integers(2, 9), seed=st.integers(0, 99), is_shuffled=st.booleans(), data=st.data())
def test_no_allocator_draws_more_than_the_log_holds(make_log, groups, k, seed, is_shuffled, data):
    log = make_log(groups)
    k = min(k, int(log.sizes.max()))
    order = shuffled_order(log, seed) if is_shuffled else None
    probe = data.draw(st.integers(1, k))
    allocators = [FixedAllocator(k), DynamicSamplingAllocator(k), SequentialAllocator(k, "auto", "auto", "auto")]
    for allocator in [*allocators, Setting(k, 0.5, probe, probe).allocator()]:
        driven = drive(log, allocator, order, seed=seed)  # LoggedRollouts asserts every slot
        usable = int((log.sizes >= k).sum())
        assert driven.opened == usable and driven.rollouts <= k * usable
        assert driven.effective + driven.false_abandoned == drive(log, allocators[1], order).effective


@settings(max_examples=40, deadline=None)
@given(groups=ragged_logs, k=st.integers(2, 9), data=st.data())
def test_a_threshold_of_at_most_one_over_k_plus_one_keeps_and_generates_what_ds_does(make_log, groups, k, data):
    log = make_log(groups, lengths=[np.arange(len(group)) for group in groups])
    k, tau = min(k, int(log.sizes.max())), data.draw(st.floats(0, 1 / (k + 1)))
    probe = data.draw(st.integers(1, k))
    driven, ds = drive(log, Setting(k, tau, probe, probe).allocator()), drive(log, DynamicSamplingAllocator(k))
    for name in ("opened", "trained", "effective", "abandoned", "false_abandoned", "rollouts", "lengths"):
        assert getattr(driven, name) == getattr(ds, name), name


def test_sampled_orders_agree_with_the_averages_over_all_orders(make_log):
    rng = np.random.default_rng(0)
    sizes = rng.integers(6, 11, 60)
    groups = [(rng.random(size) < rate).astype(int) for size, rate in zip(sizes, rng.beta(0.4, 0.6, 60), strict=True)]
    log = make_log(groups, lengths=[rng.integers(1, 100, size) for size in sizes], steps=np.repeat(np.arange(6), 10))
    setting = Setting(6, tau_low=0.5, probe=2, increment=2)
    grid = replay_grid(log, Grid((6,), (setting.tau_low,), (2,)), resamples=0)
    (result,) = grid.settings

    orders = [shuffled_order(log, seed) for seed in range(80)]
    drives = [drive(log, setting.allocator(), order) for order in orders]
    lost = result.lost.value * grid.baselines[0].effective
    length = result.generated_length.value * grid.baselines[0].lengths
    expected = {
        "rollouts": result.rollouts,
        "effective": result.kept,
        "false_abandoned": lost,
        "lengths": length,
        "rounds": result.rounds,
    }
    for name, value in expected.items():
        sampled = np.array([getattr(driven, name) for driven in drives], dtype=float)
        error = sampled.std(ddof=1) / np.sqrt(sampled.size)
        assert abs(sampled.mean() - value) < 4 * error + 1e-9, name
        assert error < 0.07 * value, name


def test_the_same_seed_gives_the_same_order_and_another_seed_another(make_log):
    log = make_log([[0, 1, 0, 1, 0, 0]] * 8)
    order = shuffled_order(log, 3)
    assert (order == shuffled_order(log, 3)).all() and (order != shuffled_order(log, 4)).any()
    assert (np.sort(order) == np.arange(48)).all() and (order // 6 == np.arange(48) // 6).all()


def test_a_rollout_that_is_not_in_the_log_cannot_be_drawn(make_log):
    source = LoggedRollouts(make_log([[0, 1], [1, 0, 1]]))
    assert source.draw(0, Draws(np.array([1, 0]), np.array([2, 0]), np.zeros(2, int))).rewards.tolist() == [1, 0]
    with pytest.raises(AssertionError, match="does not hold"):
        source.draw(0, Draws(np.array([0]), np.array([2]), np.zeros(1, int)))


def test_groups_are_handed_out_once_in_order_and_resumed_where_they_were():
    selector = LoggedOrder(np.array([4, 7, 9]))
    assert selector.select(2).tolist() == [4, 7]
    other = LoggedOrder(np.array([4, 7, 9]))
    other.load_state_dict(selector.state_dict())
    assert other.select(5).tolist() == selector.select(5).tolist() == [9]


def test_a_group_size_that_no_group_has_is_refused(make_log):
    with pytest.raises(ValueError, match="k = 4; expected at most 3"):
        drive(make_log([[0, 1, 1]]), DynamicSamplingAllocator(4))
