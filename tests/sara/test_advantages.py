from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sara.advantages import ADVANTAGES, grpo_advantages


def slow_grpo(rewards: list[float], group_ids: list[int]) -> list[float]:
    """The formula, one rollout at a time, with exactly summed means."""
    advantages = []
    for reward, group in zip(rewards, group_ids, strict=True):
        members = [r for r, g in zip(rewards, group_ids, strict=True) if g == group]
        mean = math.fsum(members) / len(members)
        deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in members) / len(members))
        advantages.append(0.0 if len(set(members)) == 1 else (reward - mean) / deviation)
    return advantages


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


def test_grpo_does_not_care_for_the_scale_of_the_rewards():
    groups = np.zeros(4, dtype=int)
    small = grpo_advantages(np.array([1.0, 0.0, 0.0, 1.0]), groups)
    np.testing.assert_allclose(grpo_advantages(np.array([50.0, -50.0, -50.0, 50.0]), groups), small, rtol=1e-14)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3, 1e-9, 1e9])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 512])
def test_a_saturated_group_and_a_group_of_one_get_exactly_zero(reward, size):
    # 0.1 + 0.1 + 0.1 is not 3 * 0.1 in floating point: a test of the deviation alone would give noise over noise.
    rewards = np.concatenate([np.full(size, reward), [0.0, 1.0]])
    advantages = grpo_advantages(rewards, np.array([3] * size + [4, 4]))
    assert (advantages[:size] == 0.0).all()
    np.testing.assert_allclose(advantages[size:], [-1, 1])


def test_no_rollouts_have_no_advantages():
    assert grpo_advantages(np.array([]), np.array([], dtype=int)).shape == (0,)


@pytest.mark.parametrize("name", ADVANTAGES)
@given(groups=ragged_groups(), rng=st.randoms(use_true_random=False))
def test_advantages_move_with_their_rollouts(name, groups, rng):
    rewards, group_ids = groups
    order = np.array(rng.sample(range(len(rewards)), len(rewards)), dtype=int)
    straight = ADVANTAGES[name](rewards, group_ids)[order]
    np.testing.assert_allclose(ADVANTAGES[name](rewards[order], group_ids[order]), straight, atol=1e-12)


@pytest.mark.parametrize("name", ADVANTAGES)
@given(groups=ragged_groups(), others=ragged_groups())
def test_a_groups_advantages_do_not_depend_on_the_other_groups(name, groups, others):
    rewards, group_ids = groups
    together = ADVANTAGES[name](
        np.concatenate([rewards, others[0]]), np.concatenate([group_ids, others[1] + 10_000_000])
    )
    np.testing.assert_allclose(together[: len(rewards)], ADVANTAGES[name](rewards, group_ids), atol=1e-12)


@given(ragged_groups())
def test_grpo_agrees_with_a_slow_loop(groups):
    rewards, group_ids = groups
    expected = slow_grpo(rewards.tolist(), group_ids.tolist())
    np.testing.assert_allclose(grpo_advantages(rewards, group_ids), expected, atol=1e-12, rtol=1e-12)


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


def test_advantages_leave_their_arguments_alone():
    rewards, group_ids = np.array([1.0, 0.0, 1.0]), np.array([4, 4, 4])
    grpo_advantages(rewards, group_ids)
    assert rewards.tolist() == [1.0, 0.0, 1.0] and group_ids.tolist() == [4, 4, 4]
