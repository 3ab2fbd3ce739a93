"""The contract, for every registered selector."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.selection import SELECTORS, Evidence

each_selector = pytest.mark.parametrize("name", SELECTORS)


def play_step(selector, step, wanted, rng) -> list[np.ndarray]:
    """One step that asks for `wanted[i]` prompts in turn and reports random evidence; what it was given."""
    selector.begin_step(step, max(wanted[0], 1))
    given = [selector.select(count) for count in wanted]
    prompts = np.concatenate(given)
    n = rng.integers(0, 9, prompts.size)
    s = rng.binomial(n, rng.choice([0.0, 0.4, 1.0], prompts.size))
    p_eff = np.where((s > 0) & (s < n), 1.0, 1 - n / 8)
    selector.end_step(Evidence(prompts, n, s, p_eff))
    return given


@each_selector
@settings(max_examples=60, deadline=None)
@given(
    num_prompts=st.integers(1, 60),
    steps=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_prompt_twice_in_a_step_and_none_withheld(name, num_prompts, steps, seed):
    selector, rng = SELECTORS[name](num_prompts, seed), np.random.default_rng(seed)
    for step, wanted in enumerate(steps, start=1):
        given = play_step(selector, step, wanted, rng)
        prompts = np.concatenate(given)
        assert prompts.dtype == np.int64
        assert np.unique(prompts).size == prompts.size
        assert prompts.size == min(sum(wanted), num_prompts)  # fewer only when the pool is exhausted
        assert all(chunk.size <= count for chunk, count in zip(given, wanted, strict=True))
        assert not prompts.size or (prompts.min() >= 0 and prompts.max() < num_prompts)


@each_selector
def test_the_same_seed_gives_the_same_prompts_and_another_seed_others(name):
    first, again, other = [
        play_step(SELECTORS[name](1000, seed), 1, [16, 5], np.random.default_rng(0)) for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert set(np.concatenate(first)) != set(np.concatenate(other))


@each_selector
@pytest.mark.parametrize("asked_before_the_stop", [0, 1, 2])
def test_a_selector_resumed_in_the_middle_of_a_step_goes_on_as_if_never_stopped(name, asked_before_the_stop):
    straight, rng = SELECTORS[name](50, 9), np.random.default_rng(1)
    for step in range(1, 5):
        play_step(straight, step, [7, 11], rng)
    straight.begin_step(5, 7)
    for _ in range(asked_before_the_stop):
        straight.select(9)
    resumed = SELECTORS[name](50, 9)
    resumed.load_state_dict(copy.deepcopy(straight.state_dict()))
    np.testing.assert_array_equal(straight.select(20), resumed.select(20))
    evidence = Evidence(np.array([3, 4]), np.array([8, 4]), np.array([2, 0]), np.array([1.0, 0.4]))
    straight.end_step(evidence), resumed.end_step(evidence)
    for step in range(6, 12):
        expected = play_step(straight, step, [7, 11], np.random.default_rng(step))
        got = play_step(resumed, step, [7, 11], np.random.default_rng(step))
        np.testing.assert_array_equal(np.concatenate(expected), np.concatenate(got))


@each_selector
def test_state_is_a_snapshot(name):
    selector = SELECTORS[name](30, 0)
    play_step(selector, 1, [8], np.random.default_rng(0))
    state = selector.state_dict()
    before = copy.deepcopy(state)
    play_step(selector, 2, [25, 5], np.random.default_rng(0))
    np.testing.assert_equal(state, before)


@each_selector
def test_state_of_another_pool_is_refused(name):
    with pytest.raises(ValueError, match=r"selector state is of 31 prompts; expected 30"):
        SELECTORS[name](30, 0).load_state_dict(SELECTORS[name](31, 0).state_dict())


@each_selector
def test_an_empty_pool_is_refused(name):
    with pytest.raises(ValueError, match=r"num_prompts = 0; expected at least 1"):
        SELECTORS[name](0, 0)


@each_selector
@settings(max_examples=80, deadline=None)
@given(
    num_prompts=st.integers(1, 40),
    steps=st.lists(
        st.tuples(st.lists(st.integers(0, 25), min_size=1, max_size=4), st.integers(0, 60)), min_size=1, max_size=8
    ),
    candidate_ratio=st.sampled_from([1, 3, 16]),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_is_given_back_was_never_asked_for(name, num_prompts, steps, candidate_ratio, seed):
    """One selector is asked bit by bit, far ahead, and takes the rest back; the other is asked once for what stays."""
    options = {"candidate_ratio": candidate_ratio} if name == "dps" else {}
    ahead, exact = (SELECTORS[name](num_prompts, seed, **options) for _ in range(2))
    for step, (wanted, num_back) in enumerate(steps, start=1):
        for selector in (ahead, exact):
            selector.begin_step(step, 2)
        given = np.concatenate([ahead.select(count) for count in wanted])
        kept = given[: max(given.size - num_back, 0)]
        ahead.give_back(given.size - kept.size)
        np.testing.assert_array_equal(exact.select(kept.size), kept)
        evidence = Evidence(kept, np.full(kept.size, 8), kept % 9, np.ones(kept.size) * ((kept % 9) % 8 > 0))
        ahead.end_step(evidence), exact.end_step(evidence)
