"""From rollouts to examples: reward shaping, masks, beliefs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sara.learner.experience import length_penalties, make_examples

TEMPERATURE = 0.8


def advantages(examples) -> list[list[float]]:
    return [np.round(e.token_advantages, 12).tolist() for e in examples]


def test_grpo_from_end_to_end(make_exact, make_exact_learner, make_rollout):
    # Prompt 0: rewards 1, 0: advantages 1 and -1. Prompt 1 is saturated, prompt 2 alone.
    rollouts = [
        make_rollout((2,), (4, 5), 0, 1),
        make_rollout((3,), (6,), 1, 1),
        make_rollout((2,), (7,), 0, 0),
        make_rollout((3,), (8, 9), 1, 1),
        make_rollout((4,), (8,), 2, 0),
    ]
    examples, figures = make_examples(rollouts, make_exact_learner(make_exact()), 12)
    assert advantages(examples) == [[1, 1], [0], [-1], [0, 0], [0]]
    # Seven tokens: 1, 1, -1 and four zeros: mean 1/7, mean square 3/7.
    assert figures["advantage/mean"] == pytest.approx(1 / 7) and figures["advantage/abs_max"] == 1.0
    assert figures["advantage/std"] == pytest.approx(np.sqrt(3 / 7 - 1 / 49))


def test_length_penalties_worked_example():
    # Limit 12, window 4: nothing up to 8, then a quarter of the penalty a token.
    lengths = np.array([1, 8, 9, 10, 12])
    np.testing.assert_allclose(length_penalties(lengths, 12, 4, 0.6), [0, 0, 0.15, 0.3, 0.6])


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 2))
def test_length_penalties_agree_with_the_formula_case_by_case(longest, window, penalty):
    window = min(window, longest)
    expected = [
        0.0 if n <= longest - window else penalty * (n - (longest - window)) / window for n in range(longest + 1)
    ]
    found = length_penalties(np.arange(longest + 1), longest, window, penalty)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_length_penalty_is_part_of_the_reward_but_makes_no_saturated_group_teach(
    make_exact, make_exact_learner, make_rollout
):
    learner = make_exact_learner(
        make_exact(), advantage="rloo", overlong="penalty", overlong_window=4, overlong_penalty=0.4
    )
    long = [5] * 12
    rollouts = [
        make_rollout((2,), (4, 5), 0, 1),
        make_rollout((2,), long, 0, 0, "length"),  # 0 - 0.4
        make_rollout((3,), long, 1, 0, "length"),
        make_rollout((3,), (6,), 1, 0),  # differs from the other by the penalty alone
    ]
    found = advantages(make_examples(rollouts, learner, 12)[0])
    assert found == [[1.4, 1.4], [-1.4] * 12, [0] * 12, [0]]


def test_cut_answers_count_for_their_group_but_are_not_trained_on(make_exact, make_exact_learner, make_rollout):
    learner = make_exact_learner(make_exact(), advantage="dr_grpo", aggregation="token", overlong="mask")
    rollouts = [
        make_rollout((2,), (4, 5, 6), 0, 1),
        make_rollout((2,), [5] * 12, 0, 0, "length"),
        make_rollout((2,), (7,), 0, 0),
    ]
    examples, _ = make_examples(rollouts, learner, 12)
    assert advantages(examples) == [[round(2 / 3, 12)] * 3, [], [round(-1 / 3, 12)]]
    # Numerator and denominator alike: (-2/3 * 3 + 1/3 * 1) / 4
    metrics = learner.update(examples, np.random.default_rng(0))
    assert metrics["loss"] == pytest.approx((-2 + 1 / 3) / 4, rel=1e-12)


def test_beliefs_take_the_place_of_the_groups_mean(make_exact, make_exact_learner, make_rollout):
    learner = make_exact_learner(make_exact(), advantage="dr_grpo", baseline="belief")
    rollouts = [make_rollout((2,), (4, 5), 0, 1), make_rollout((2,), (7,), 0, 0)]
    examples, _ = make_examples(rollouts, learner, 12, beliefs=np.array([0.2, 0.2]))
    assert advantages(examples) == [[0.8, 0.8], [-0.2]]


@pytest.mark.parametrize(("estimator", "slow"), [("k1", lambda d: d), ("k2", lambda d: d**2 / 2)])
def test_kl_in_the_reward_is_taken_off_token_by_token(make_exact, make_exact_learner, make_rollout, estimator, slow):
    model, reference = make_exact(), make_exact(seed=1)
    settings = {"advantage": "reinforce++", "kl_coef": 0.5, "kl_in": "reward", "kl_estimator": estimator}
    rollouts = [make_rollout((2,), (4, 5, 6), 0, 1), make_rollout((3,), (7, 8), 1, 0)]

    def logprobs(of, rollout):
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion.token_ids.tolist()]])
        logits = of(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1] / TEMPERATURE
        tokens = torch.tensor(rollout.completion.token_ids)[:, None]
        return torch.log_softmax(logits, -1).gather(1, tokens)[:, 0].detach().numpy()

    returns, penalty = [], 0.0
    for rollout in rollouts:
        rewards = -0.5 * slow(logprobs(model, rollout) - logprobs(reference, rollout))
        penalty -= rewards.sum() / 2
        rewards[-1] += rollout.reward
        returns += np.cumsum(rewards[::-1])[::-1].tolist()
    expected = (np.array(returns) - np.mean(returns)) / np.std(returns)
    learner = make_exact_learner(model, reference, **settings)
    examples, figures = make_examples(rollouts, learner, 12)
    np.testing.assert_allclose(np.concatenate([e.advantage for e in examples]), expected, atol=1e-10)
    assert figures["reward/kl_penalty"] == pytest.approx(penalty, abs=1e-10)
    assert "kl_reference" not in learner.update(examples, np.random.default_rng(0))  # not in the loss too


def test_no_rollouts_are_no_examples(make_exact, make_exact_learner):
    assert make_examples([], make_exact_learner(make_exact()), 12) == ([], {})


@pytest.mark.parametrize("algorithm", ["grpo", "reinforce++", "ppo"])
def test_a_kl_in_the_reward_that_is_no_number_leaves_the_update_out(
    make_exact, make_exact_learner, make_rollout, algorithm
):
    model, reference = make_exact(), make_exact(seed=1)
    settings = {"advantage": algorithm, "kl_coef": 0.5, "kl_in": "reward"}
    learner = make_exact_learner(model, reference, **settings)
    rollouts = [make_rollout((2,), (4, 5, 6), 7, 1), make_rollout((2,), (7, 8), 7, 0)]
    with torch.no_grad():
        reference.transformer.wte.weight[5] = float("nan")
    examples, _ = make_examples(rollouts, learner, 12)
    with pytest.warns(UserWarning, match="an update over prompts 7 was left out"):
        metrics = learner.update(examples, np.random.default_rng(0))
    assert (metrics["updates"], metrics["bad_updates"]) == (0.0, 1.0)
