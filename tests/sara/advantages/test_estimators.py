"""Every estimator of the registry, and those that work on tokens, against slow loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.advantages import ADVANTAGES, Discounts, ScoredRollouts, get_estimator, is_effective
from sara.advantages.ppo import generalised_advantages
from sara.advantages.reinforce import returns_to_go
from sara.advantages.whitening import whiten


@st.composite
def scored_rollouts(draw, min_size=0) -> ScoredRollouts:
    """Ragged groups of ragged rollouts, some without a trained token, with values and token rewards."""
    size = draw(st.integers(min_size, 12))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rewards = rng.choice([0.0, 1.0], size)
    groups, lengths = rng.integers(0, 4, size) * 100, rng.integers(0, 6, size)
    tokens = int(lengths.sum())
    return ScoredRollouts(
        rewards,
        groups,
        lengths,
        is_effective(rewards, groups),
        rng.normal(0, 0.1, tokens) if draw(st.booleans()) else None,
        rng.normal(0, 1, tokens),
    )


discounts = st.builds(Discounts, gamma=st.sampled_from([0.0, 0.9, 1.0]), trace=st.sampled_from([0.0, 0.5, 1.0]))


def rows(scored: ScoredRollouts, values: np.ndarray | None) -> list[list[float]]:
    """Flat values as a list for each rollout."""
    values = np.zeros(int(scored.lengths.sum())) if values is None else values
    ends = np.cumsum(scored.lengths).tolist()
    return [values[end - length : end].tolist() for end, length in zip(ends, scored.lengths.tolist(), strict=True)]


def step_rewards(scored: ScoredRollouts) -> list[list[float]]:
    found = rows(scored, scored.token_rewards)
    for row, reward in zip(found, scored.rewards.tolist(), strict=True):
        if row:
            row[-1] += reward
    return found


def slow_whiten(values: list[float]) -> list[float]:
    if len(set(values)) <= 1:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values))
    return [(x - mean) / deviation for x in values]


def slow_returns(rewards: list[float], gamma: float) -> list[float]:
    return [math.fsum(gamma ** (u - t) * rewards[u] for u in range(t, len(rewards))) for t in range(len(rewards))]


def slow_gae(rewards: list[float], values: list[float], gamma: float, trace: float) -> list[float]:
    """As a sum of discounted one-step errors (Schulman et al. 2016, eq. 16), not by recursion."""
    after = [*values[1:], 0.0][: len(values)]
    errors = [r + gamma * n - v for r, n, v in zip(rewards, after, values, strict=True)]
    steps = range(len(rewards))
    return [math.fsum((gamma * trace) ** (u - t) * errors[u] for u in steps[t:]) for t in steps]


@given(scored_rollouts(), discounts)
def test_reinforce_pp_agrees_with_a_slow_loop(scored, rates):
    flat = [x for row in step_rewards(scored) for x in slow_returns(row, rates.gamma)]
    if flat and max(flat) - min(flat) < 1e-9:
        return  # rounding alone tells them apart
    found = ADVANTAGES["reinforce++"].estimate(scored, rates).advantages
    np.testing.assert_allclose(found, slow_whiten(flat), atol=1e-10)


@given(scored_rollouts(), discounts)
def test_ppo_agrees_with_a_slow_loop(scored, rates):
    pairs = zip(step_rewards(scored), rows(scored, scored.values), strict=True)
    flat = [x for rewards, values in pairs for x in slow_gae(rewards, values, rates.gamma, rates.trace)]
    found = ADVANTAGES["ppo"].estimate(scored, rates)
    np.testing.assert_allclose(found.advantages, slow_whiten(flat), atol=1e-10)
    np.testing.assert_allclose(found.returns, np.array(flat) + scored.values, atol=1e-10)  # before whitening


@given(scored_rollouts())
def test_reinforce_pp_baseline_agrees_with_a_slow_loop(scored):
    totals = [r + math.fsum(row) for r, row in zip(scored.rewards, rows(scored, scored.token_rewards), strict=True)]
    teaching, places = [], []
    for i, (group, length) in enumerate(zip(scored.group_ids, scored.lengths, strict=True)):
        members = [t for t, g in zip(totals, scored.group_ids, strict=True) if g == group]
        rewards = [r for r, g in zip(scored.rewards, scored.group_ids, strict=True) if g == group]
        if len(set(rewards)) > 1:
            teaching += [totals[i] - math.fsum(members) / len(members)] * int(length)
            places += range(int(scored.lengths[:i].sum()), int(scored.lengths[: i + 1].sum()))
    expected = np.zeros(int(scored.lengths.sum()))
    expected[places] = slow_whiten(teaching)
    if teaching and max(teaching) - min(teaching) < 1e-9:
        return
    found = ADVANTAGES["reinforce++-baseline"].estimate(scored, Discounts()).advantages
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_gae_worked_example():
    # gamma 0.9, lambda 0.5; one rollout, rewards 0, 0, 1, values 0.5, 0.2, 0.4:
    # d_3 = 1 - 0.4 = 0.6;  d_2 = 0.9 * 0.4 - 0.2 = 0.16;  d_1 = 0.9 * 0.2 - 0.5 = -0.32
    # A_3 = 0.6;  A_2 = 0.16 + 0.45 * 0.6 = 0.43;  A_1 = -0.32 + 0.45 * 0.43 = -0.1265;  returns: A + V
    advantages, returns = generalised_advantages(
        np.array([0, 0, 1.0]), np.array([0.5, 0.2, 0.4]), np.array([3]), Discounts(0.9, 0.5)
    )
    np.testing.assert_allclose(advantages, [-0.1265, 0.43, 0.6], atol=1e-14)
    np.testing.assert_allclose(returns, [0.3735, 0.63, 1.0], atol=1e-14)


def test_gae_at_both_ends_of_its_trace():
    rewards, values, lengths = np.array([0, 1.0, 0, 0, 2.0]), np.arange(5.0), np.array([2, 3])
    whole, returns = generalised_advantages(rewards, values, lengths, Discounts(1.0, 1.0))
    np.testing.assert_allclose(returns, [1, 1, 2, 2, 2])  # the rewards to come, whatever the values
    np.testing.assert_allclose(whole, [1, 0, 0, -1, -2])
    one_step, _ = generalised_advantages(rewards, values, lengths, Discounts(1.0, 0.0))
    np.testing.assert_allclose(one_step, [0 + 1 - 0, 1 - 1, 0 + 3 - 2, 0 + 4 - 3, 2 - 4])


def test_reinforce_pp_worked_example_of_uneven_lengths():
    # Rewards 1 and 0 on 1 and 3 tokens: returns 1, 0, 0, 0; mean 1/4, deviation sqrt(3)/4:
    # sqrt 3 and -1/sqrt 3. (Whitening over rollouts would give 1 and -1, and a mean over tokens of -1/2.)
    scored = ScoredRollouts(np.array([1.0, 0.0]), np.array([0, 1]), np.array([1, 3]), np.zeros(2, bool))
    found = ADVANTAGES["reinforce++"].estimate(scored, Discounts()).advantages
    np.testing.assert_allclose(found, [math.sqrt(3)] + [-1 / math.sqrt(3)] * 3, rtol=1e-14)


def test_a_later_reward_reaches_earlier_tokens_discounted_and_never_another_rollout():
    np.testing.assert_allclose(
        returns_to_go(np.array([0, 0, 1.0, 5.0, 0, 2.0]), np.array([3, 0, 1, 2]), 0.5), [0.25, 0.5, 1, 5, 1, 2]
    )


def test_whitening_equal_values_gives_exactly_zero():
    assert not whiten(np.full(7, 0.1)).any() and whiten(np.zeros(0)).shape == (0,)
    assert (whiten(np.array([0.1 + 0.2, 0.3])) == 0).all()  # equal but for their rounding


@given(st.lists(st.floats(-10, 10).map(lambda x: round(x, 3)), min_size=2, max_size=30))
def test_whitened_values_have_mean_zero_and_deviation_one(values):
    found = whiten(np.array(values))
    assert abs(found.mean()) < 1e-9
    assert found.std() == pytest.approx(1.0 if len(set(values)) > 1 else 0.0, abs=1e-9)


@pytest.mark.parametrize("name", ADVANTAGES)
@given(scored=scored_rollouts(), rng=st.randoms(use_true_random=False))
def test_advantages_move_with_their_rollouts(name, scored, rng):
    order = np.array(rng.sample(range(len(scored.rewards)), len(scored.rewards)), dtype=int)

    def reorder(flat):
        found = rows(scored, flat)
        return np.array([x for i in order for x in found[i]])

    shuffled = ScoredRollouts(
        scored.rewards[order],
        scored.group_ids[order],
        scored.lengths[order],
        scored.is_effective[order],
        None if scored.token_rewards is None else reorder(scored.token_rewards),
        reorder(scored.values),
    )
    straight = ADVANTAGES[name].estimate(scored, Discounts()).advantages
    np.testing.assert_allclose(
        ADVANTAGES[name].estimate(shuffled, Discounts()).advantages, reorder(straight), atol=1e-9
    )


@pytest.mark.parametrize("name", [name for name, e in ADVANTAGES.items() if e.is_group_based])
@given(scored=scored_rollouts())
def test_saturated_groups_teach_nothing_whatever_is_taken_off_their_tokens(name, scored):
    found = ADVANTAGES[name].estimate(scored, Discounts()).advantages
    assert (found[~np.repeat(scored.is_effective, scored.lengths)] == 0.0).all()


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "reinforce++-baseline"])
def test_a_batch_teaches_the_same_whether_its_saturated_groups_were_thrown_away_or_not(name):
    rewards, groups = np.array([1.0, 0, 0, 1, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    lengths = np.array([1, 3, 2, 5, 4, 4, 9, 1])
    kept = ScoredRollouts(rewards, groups, lengths, is_effective(rewards, groups))
    thrown = ScoredRollouts(rewards[:4], groups[:4], lengths[:4], np.ones(4, bool))
    all_of_them = ADVANTAGES[name].estimate(kept, Discounts()).advantages
    np.testing.assert_allclose(all_of_them[:11], ADVANTAGES[name].estimate(thrown, Discounts()).advantages, atol=1e-12)
    assert not all_of_them[11:].any()


def test_the_kl_of_tokens_is_added_up_for_algorithms_that_judge_whole_rollouts():
    # Rewards 1 and 0 less 0.1 + 0.2 and 0.4: 0.7 and -0.4, mean 0.15: 0.55 and -0.55.
    scored = ScoredRollouts(
        np.array([1.0, 0.0]), np.zeros(2, int), np.array([2, 1]), np.ones(2, bool), -np.array([0.1, 0.2, 0.4])
    )
    found = ADVANTAGES["dr_grpo"].estimate(scored, Discounts()).advantages
    np.testing.assert_allclose(found, [0.55, 0.55, -0.55], atol=1e-14)


@pytest.mark.parametrize("name", ADVANTAGES)
def test_no_estimator_takes_a_reward_that_is_no_number(name):
    rewards, groups = np.array([1.0, 0.0, math.nan, 1.0, math.nan]), np.array([7, 7, 40, 40, 50])
    with pytest.raises(ValueError, match="a reward of group 40 is nan and 1 more; expected finite numbers"):
        ADVANTAGES[name].estimate(
            ScoredRollouts(rewards, groups, np.ones(5, int), np.ones(5, bool), values=np.zeros(5)), Discounts()
        )
    with pytest.raises(ValueError, match="group 40"):
        is_effective(rewards, groups)


def test_an_unknown_algorithm_is_refused_with_the_nearest_known_one_if_one_is_near():
    with pytest.raises(ValueError, match=r"'reinforce' is unknown; did you mean 'reinforce\+\+'\? Known: grpo, "):
        get_estimator("reinforce")
    with pytest.raises(ValueError, match="algorithm 'xyz' is unknown; Known: grpo, dr_grpo, rloo, "):
        get_estimator("xyz")
