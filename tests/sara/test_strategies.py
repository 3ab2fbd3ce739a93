from __future__ import annotations

import pytest

from sara.allocation import ALLOCATORS, Limits
from sara.config import AllocationConfig, SelectionConfig
from sara.selection import SELECTORS
from sara.strategies import STRATEGIES, build_strategy, configured_limits, configured_strategy, get_strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_pairs_a_known_selector_and_allocator(name):
    selector, allocator = build_strategy(name, num_prompts=10, seed=0, k=8)
    strategy = get_strategy(name)
    assert type(selector) is SELECTORS[strategy.selector]
    assert type(allocator) is ALLOCATORS[strategy.allocator]
    assert allocator.k == 8


def test_the_strategies_are_those_of_the_paper():
    assert set(STRATEGIES) == {"uniform", "ds", "dps", "ds+dps", "sara", "sara+dps"}
    assert STRATEGIES["sara+dps"] == ("dps", "sara")


@pytest.mark.parametrize(("wrong", "near"), [("sarah", "sara"), ("SARA+DPS ", "sara+dps"), ("unifrom", "uniform")])
def test_an_unknown_strategy_names_the_nearest_one(wrong, near):
    with pytest.raises(ValueError) as error:
        get_strategy(wrong)
    assert f"did you mean {near!r}" in str(error.value)
    assert "\n" not in str(error.value)


def test_options_reach_the_selector_and_the_allocator():
    selector, allocator = build_strategy(
        "sara+dps",
        num_prompts=10,
        seed=0,
        k=4,
        selector_options={"decay": 0.5, "candidate_ratio": 3},
        allocator_options={"tau_low": 0.2, "probe": 2, "on_commit": "stop"},
    )
    assert (selector.beliefs.decay, selector.candidate_ratio) == (0.5, 3)
    assert (allocator.k, allocator.tau_low, allocator.probe, allocator.on_commit) == (4, 0.2, 2, "stop")


def test_a_configuration_reaches_the_selector_and_the_allocator():
    allocation = AllocationConfig(
        k=16, groups_per_step=4, tau_low=0.3, probe=2, increment=5, on_commit="stop", budget=200
    )
    selector, allocator = configured_strategy(
        "sara+dps", 50, 3, allocation, SelectionConfig(decay=0.9, candidate_ratio=2)
    )
    assert (allocator.k, allocator.tau_low, allocator.probe, allocator.increment) == (16, 0.3, 2, 5)
    assert allocator.on_commit == "stop"
    assert (selector.beliefs.decay, selector.candidate_ratio, selector.groups_per_step) == (0.9, 2, 4)
    _, dynamic = configured_strategy("ds", 50, 3, AllocationConfig(max_gen_batches=7), SelectionConfig())
    assert dynamic.max_rounds == 7
    assert configured_limits(allocation) == Limits(target=4, budget=200, max_rounds=20)
    assert configured_limits(AllocationConfig(max_gen_batches=7)).budget == 7 * 16 * 8
