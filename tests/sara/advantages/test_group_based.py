from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sara.advantages.dr_grpo import belief_advantages, mean_only_advantages
from sara.advantages.grpo import grpo_advantages
from sara.advantages.rloo import leave_one_out_advantages

FORMULAS = {"grpo": grpo_advantages, "dr_grpo": mean_only_advantages, "rloo": leave_one_out_advantages}


def slow_grpo(rewards: list[float], group_ids: list[int]) -> list[float]:
    """The formula, one rollout at a time, with exactly summed means."""
    advantages = []
    for reward, group in zip(rewards, group_ids, strict=True):
        members = [r for r, g in zip(rewards, group_ids, strict=True) if g == group]
        mean = math.fsum(members) / len(members)
        deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in members) / len(members))
        advantages.append(0.0 if len(set(members)) == 1 else (reward - mean) / deviation)
    return advantages


def slow_mean_only(rewards: list[float], group_ids: list[int]) -> list[float]:
    advantages = []
    for reward, group in zip(rewards, group_ids, strict=True):
        members = [r for r, g in zip(rewards, group_ids, strict=True) if g == group]
        advantages.append(0.0 if len(set(members)) == 1 else reward - math.fsum(members) / len(members))
    return advantages


def slow_leave_one_out(rewards: list[float], group_ids: list[int]) -> list[float]:
    """The sum is over the others, as in the paper, and not over all."""
    advantages = []
    for i, (reward, group) in enumerate(zip(rewards, group_ids, strict=True)):
        others = [r for j, (r, g) in enumerate(zip(rewards, group_ids, strict=True)) if g == group and j != i]
        is_saturated = all(other == reward for other in others)
        advantages.append(0.0 if is_saturated else reward - math.fsum(others) / len(others))
    return advantages


SLOW = {"grpo": slow_grpo, "dr_grpo": slow_mean_only, "rloo": slow_leave_one_out}


@st.composite
def ragged_groups(draw, rewards=None) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and group ids of groups of any size, in any order."""
    size = draw(st.integers(0, 40))
    group_ids = draw(hnp.arrays(np.int64, size, elements=st.integers(0, 6))) * 1000 + 5
    elements = rewards if rewards is not None else st.sampled_from([0.0, 1.0, 0.1, 0.3, 7.0])
    return draw(hnp.arrays(np.float64, size, elements=elements)), group_ids


def test_grpo_worked_example_one_right_of_four():
    # mean 1/4; population variance (9/16 + 3 * 1/16) / 4 = 3/16, deviation 0.4330127;
    # right: 0.75 / 0.4330127 = sqrt(3) = 1.7320508; wrong: -0.25 / 0.4330127 = -0.5773503
    advantages = grpo_advantages(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4, dtype=int))
    np.testing.assert_allclose(advantages, [1.7320508075688772] + [-0.5773502691896258] * 3, rtol=1e-14)


def test_grpo_worked_example_of_ragged_interleaved_groups():
    # group 7: rewards 1, 0, 0, mean 1/3, deviation sqrt(2)/3: (2/3)/(sqrt(2)/3) = sqrt 2 and -1/sqrt 2
    # group 2: rewards 0, 1, mean 1/2, deviation 1/2: -1 and 1;  group 9: alone
    advantages = grpo_advantages(np.array([1, 0, 0, 1, 1, 0]), np.array([7, 2, 7, 9, 2, 7]))
    root = math.sqrt(2)
    np.testing.assert_allclose(advantages, [root, -1, -1 / root, 0, 1, -1 / root], rtol=1e-14)


def test_dr_grpo_worked_example_of_ragged_interleaved_groups():
    # group 7: rewards 1, 0, 0, mean 1/3: 2/3, -1/3, -1/3;  group 2: rewards 0, 1: -1/2 and 1/2;  group 9: alone
    advantages = mean_only_advantages(np.array([1, 0, 0, 1, 1, 0]), np.array([7, 2, 7, 9, 2, 7]))
    np.testing.assert_allclose(advantages, [2 / 3, -1 / 2, -1 / 3, 0, 1 / 2, -1 / 3], rtol=1e-14)


def test_rloo_worked_example_one_success_in_a_group_of_four():
    # right: 1 - (0 + 0 + 0) / 3 = 1;  wrong: 0 - (1 + 0 + 0) / 3 = -1/3 (with the group's own mean: 3/4 and -1/4)
    advantages = leave_one_out_advantages(np.array([0.0, 1.0, 0.0, 0.0]), np.zeros(4, dtype=int))
    np.testing.assert_allclose(advantages, [-1 / 3, 1, -1 / 3, -1 / 3], rtol=1e-14)


def test_beliefs_worked_example():
    # Prompt 1 was believed at 0.25 and prompt 2 at 0.9; prompt 3 is saturated and prompt 4 alone.
    rewards, prompts = np.array([1.0, 0, 1, 0, 1, 1, 1]), np.array([1, 1, 2, 2, 3, 3, 4])
    beliefs = np.array([0.25, 0.25, 0.9, 0.9, 0.5, 0.5, 0.5])
    expected = [0.75, -0.25, 0.1, -0.9, 0, 0, 0]
    np.testing.assert_allclose(belief_advantages(rewards, prompts, beliefs), expected, atol=1e-14)


@given(ragged_groups(), st.integers(0, 2**32 - 1))
def test_advantages_over_beliefs_agree_with_a_slow_loop(groups, seed):
    rewards, group_ids = groups
    beliefs = np.random.default_rng(seed).random(len(rewards))
    expected = []
    for reward, group, belief in zip(rewards.tolist(), group_ids.tolist(), beliefs.tolist(), strict=True):
        members = {r for r, g in zip(rewards.tolist(), group_ids.tolist(), strict=True) if g == group}
        expected.append(reward - belief if len(members) > 1 else 0.0)
    np.testing.assert_allclose(belief_advantages(rewards, group_ids, beliefs), expected, atol=1e-10)


def test_grpo_does_not_care_for_the_scale_of_the_rewards():
    groups = np.zeros(4, dtype=int)
    small = grpo_advantages(np.array([1.0, 0.0, 0.0, 1.0]), groups)
    np.testing.assert_allclose(grpo_advantages(np.array([50.0, -50.0, -50.0, 50.0]), groups), small, rtol=1e-14)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3, 1e-9, 1e9])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 512])
def test_a_saturated_group_and_a_group_of_one_get_exactly_zero(name, reward, size):
    # 0.1 + 0.1 + 0.1 is not 3 * 0.1 in floating point: a test of the deviation alone would give noise over noise.
    rewards = np.concatenate([np.full(size, reward), [0.0, 1.0]])
    advantages = FORMULAS[name](rewards, np.array([3] * size + [4, 4]))
    assert (advantages[:size] == 0.0).all()
    assert advantages[-1] > 0.4 and advantages[-2] < -0.4


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_rewards_that_are_equal_up_to_rounding_are_equal(name, scale):
    # 0.1 + 0.2 and 0.3 differ by 5.6e-17: as deviations of a group they would be advantages of 1 and -1.
    rewards = scale * np.array([0.1 + 0.2, 0.3, 0.3, 1.0, 0.0])
    assert rewards[0] != rewards[1]
    advantages = FORMULAS[name](rewards, np.array([1, 1, 1, 2, 2]))
    assert (advantages[:3] == 0.0).all() and advantages[3] > 0
    apart = FORMULAS[name](np.array([1e-11, 0.0]), np.array([1, 1]))
    assert apart[0] > 0 > apart[1]


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused_by_its_group(name, bad):
    rewards, groups = np.array([1.0, 0.0, bad, 1.0]), np.array([7, 7, 40, 40])
    with pytest.raises(ValueError, match=f"a reward of group 40 is {bad}; expected finite numbers"):
        FORMULAS[name](rewards, groups)


@pytest.mark.parametrize("name", FORMULAS)
def test_no_rollouts_have_no_advantages(name):
    assert FORMULAS[name](np.array([]), np.array([], dtype=int)).shape == (0,)


@pytest.mark.parametrize("name", FORMULAS)
@given(groups=ragged_groups())
def test_advantages_agree_with_a_slow_loop(name, groups):
    rewards, group_ids = groups
    expected = SLOW[name](rewards.tolist(), group_ids.tolist())
    np.testing.assert_allclose(FORMULAS[name](rewards, group_ids), expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", FORMULAS)
@given(groups=ragged_groups(), others=ragged_groups())
def test_a_groups_advantages_do_not_depend_on_the_other_groups(name, groups, others):
    rewards, group_ids = groups
    together = FORMULAS[name](np.concatenate([rewards, others[0]]), np.concatenate([group_ids, others[1] + 10_000_000]))
    np.testing.assert_allclose(together[: len(rewards)], FORMULAS[name](rewards, group_ids), atol=1e-12)


@given(ragged_groups(rewards=st.sampled_from([0.0, 1.0])))
def test_grpo_groups_have_mean_zero_and_deviation_one_or_are_all_zero(groups):
    rewards, group_ids = groups
    advantages = grpo_advantages(rewards, group_ids)
    for group in set(group_ids.tolist()):
        members = advantages[group_ids == group]
        is_mixed = len(set(rewards[group_ids == group].tolist())) > 1
        assert abs(members.mean()) < 1e-12
        assert members.std() == pytest.approx(1.0 if is_mixed else 0.0, abs=1e-12)
        assert is_mixed or not members.any()


@pytest.mark.parametrize("name", FORMULAS)
def test_advantages_leave_their_arguments_alone(name):
    rewards, group_ids = np.array([1.0, 0.0, 1.0]), np.array([4, 4, 4])
    FORMULAS[name](rewards, group_ids)
    assert rewards.tolist() == [1.0, 0.0, 1.0] and group_ids.tolist() == [4, 4, 4]
