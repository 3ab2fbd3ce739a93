from __future__ import annotations

import numpy as np
import pytest

from sara.seeds import prompt_priorities, rollout_seeds, step_rng, unit_interval


def splitmix64(state: int) -> int:
    """One output of splitmix64 in plain integers, as published: add the increment, then finalize."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_the_reference_is_splitmix64():
    # First output of splitmix64 seeded with 1234567 (the published test vector).
    assert splitmix64(1234567) == 6457827717110365317


def test_rollout_seeds_fold_their_arguments_one_by_one():
    key = splitmix64(0)  # domain 1: mix(1 * increment) is the first output from state 0
    for word in (5, 2, 9, 3, 1):  # run seed, step, prompt, slot, attempt
        key = splitmix64(key ^ word)
    assert rollout_seeds(5, 2, [9], [3], attempt=1).tolist() == [key]


def test_a_rollouts_seed_does_not_depend_on_its_batch():
    prompts, slots = np.repeat(np.arange(50), 8), np.tile(np.arange(8), 50)
    together = rollout_seeds(3, 7, prompts, slots)
    order = np.random.default_rng(0).permutation(prompts.size)
    np.testing.assert_array_equal(rollout_seeds(3, 7, prompts[order], slots[order]), together[order])
    assert together[11] == rollout_seeds(3, 7, prompts[11], slots[11])[0]


def test_every_argument_changes_every_seed():
    prompts, slots = np.repeat(np.arange(1000), 8), np.tile(np.arange(8), 1000)
    variants = [(3, 7, 0), (4, 7, 0), (3, 8, 0), (3, 7, 1), (7, 3, 0), (2**63, 7, 0)]
    seeds = np.concatenate([rollout_seeds(a, b, prompts, slots, c) for a, b, c in variants])
    assert seeds.dtype == np.uint64
    assert np.unique(seeds).size == seeds.size
    assert np.unique(prompt_priorities(3, 7, np.arange(10**5))).size == 10**5


def test_attempts_may_differ_from_row_to_row():
    seeds = rollout_seeds(3, 7, [1, 1, 2], [0, 0, 5], [0, 1, 2])
    assert seeds[1] == rollout_seeds(3, 7, 1, 0, 1)[0] and seeds[2] == rollout_seeds(3, 7, 2, 5, 2)[0]


def test_unit_interval_is_uniform_and_its_streams_are_independent():
    seeds = rollout_seeds(0, 1, np.arange(200_000), 0)
    first, second = unit_interval(seeds, 0), unit_interval(seeds, 1)
    for values in (first, second):
        assert values.min() >= 0 and values.max() < 1
        shares = np.histogram(values, bins=20, range=(0, 1))[0] / seeds.size
        assert np.abs(shares - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / seeds.size)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(seeds.size)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 5 / np.sqrt(seeds.size)


def test_priorities_keep_no_prompt_more_often_than_another():
    """Over many steps each of ten prompts is the first about a tenth of the time, whatever its index."""
    firsts = [int(np.argmin(prompt_priorities(0, step, np.arange(10)))) for step in range(4000)]
    shares = np.bincount(firsts, minlength=10) / 4000
    assert np.abs(shares - 0.1).max() < 5 * np.sqrt(0.09 / 4000)


def test_step_rng_is_a_function_of_its_arguments():
    draw = lambda *arguments: step_rng(*arguments).integers(0, 2**62)  # noqa: E731
    assert draw(1, 2, "order") == draw(1, 2, "order")
    assert len({draw(1, 2, "order"), draw(1, 2, "other"), draw(2, 1, "order"), draw(12, 0, "order")}) == 4


@pytest.mark.parametrize("arguments", [(-1, 0, [0], [0]), (0, -1, [0], [0]), (0, 0, [-2], [0]), (0, 0, [0], [1.5])])
def test_seeds_refuse_what_is_not_a_count(arguments):
    with pytest.raises(ValueError, match="expected integers >= 0"):
        rollout_seeds(*arguments)


def test_no_rollouts_have_no_seeds():
    empty = np.empty(0, dtype=np.int64)
    assert rollout_seeds(0, 1, empty, empty, empty).shape == (0,)
