from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.selection import ShuffleSelector


@settings(max_examples=100, deadline=None)
@given(
    num_prompts=st.integers(1, 40),
    wanted=st.lists(st.integers(0, 60), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_epoch_is_a_permutation_of_the_pool(num_prompts, wanted, seed):
    selector, served = ShuffleSelector(num_prompts, seed), []
    for step, count in enumerate(wanted, start=1):
        selector.begin_step(step)
        served.extend(selector.select(count).tolist())
    for start in range(0, len(served) - num_prompts + 1, num_prompts):
        assert sorted(served[start : start + num_prompts]) == list(range(num_prompts))


def test_epochs_have_different_orders():
    selector = ShuffleSelector(100, 0)
    orders = []
    for step in (1, 2):
        selector.begin_step(step)
        orders.append(selector.select(100).tolist())
    assert orders[0] != orders[1]


def test_prompts_opened_before_the_boundary_come_last_in_the_next_epoch():
    selector = ShuffleSelector(10, 0)
    selector.begin_step(1)
    selector.select(7)
    selector.begin_step(2)
    opened = selector.select(3)
    assert selector.select(7).size == 7 and selector.select(1).size == 0  # the other seven, then the pool is out
    selector.begin_step(3)
    assert set(selector.select(3)) == set(opened)


def test_order_does_not_depend_on_how_it_is_asked_for():
    one, many = ShuffleSelector(50, 5), ShuffleSelector(50, 5)
    one.begin_step(1), many.begin_step(1)
    np.testing.assert_array_equal(one.select(30), np.concatenate([many.select(10) for _ in range(3)]))
