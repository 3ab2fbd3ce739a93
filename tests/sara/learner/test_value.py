"""PPO's value functions, and PPO from end to end."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from sara.learner import TrainingExample
from sara.learner.experience import explained_variance, make_examples
from sara.learner.micro_batches import as_rows


def parity_rollouts(make_rollout, count: int = 24):
    """Reward 1 if the first token is even: what a value function can see from the second token on."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(2, 23, int(rng.integers(2, 6))).tolist() for _ in range(count)]
    return [make_rollout((2, 3), row, i % 3, reward=int(row[0] % 2 == 0)) for i, row in enumerate(rows)]


@pytest.mark.parametrize(("kind", "rate", "steps"), [("head", 0.1, 60), ("model", 0.02, 40)])
def test_a_value_function_learns_what_to_expect(make_exact, make_exact_learner, make_rollout, kind, rate, steps):
    model, rollouts = make_exact(), parity_rollouts(make_rollout)
    learner = make_exact_learner(
        model, advantage="ppo", value=kind, learning_rate=1e-9, value_learning_rate=rate, value_clip=None
    )
    first, _ = make_examples(rollouts, learner, 12)
    assert not np.concatenate([example.values for example in first]).any()  # nothing is expected before it was seen
    for step in range(steps):
        examples, figures = make_examples(rollouts, learner, 12)
        learner.update(examples, np.random.default_rng(step))
    reachable = 0.5
    if kind == "head":  # no linear function of these states can do better than least squares
        states = learner.scorer.hidden(as_rows(examples, "cpu")).detach().numpy()
        inputs, returns = np.c_[states, np.ones(len(states))], np.concatenate([e.returns for e in examples])
        reachable = explained_variance(inputs @ np.linalg.lstsq(inputs, returns)[0], returns)
    assert reachable > 0.2
    assert figures["value/explained_variance"] > 0.9 * reachable


def test_a_value_head_never_moves_the_policy(make_exact, make_exact_learner, make_rollout):
    """With advantages of 0 the value loss alone is left: the policy's gradient is exactly 0."""
    model, rollouts = make_exact(), parity_rollouts(make_rollout)
    learner = make_exact_learner(model, advantage="ppo", value="head")
    learner.value.head.weight.data.normal_(0, 0.1)
    examples, _ = make_examples(rollouts, learner, 12)
    still = [TrainingExample(e.rollout, 0.0, returns=e.returns, values=e.values) for e in examples]
    metrics = learner.update(still, np.random.default_rng(0))
    assert metrics["grad_norm"] == 0.0 and metrics["value/grad_norm"] > 0.01


def test_a_value_model_shares_no_weight_with_the_policy(make_exact, make_exact_learner):
    model = make_exact()
    learner = make_exact_learner(model, advantage="ppo", value="model")
    ours = {id(weight) for weight in model.parameters()}
    assert not any(id(weight) in ours for weight in learner.value.parameters())
    assert len(learner.optimizer.groups) == 2


def test_ppo_resumes_bit_for_bit(make_exact, make_exact_learner, make_rollout):
    rollouts = parity_rollouts(make_rollout, 9)

    def step(learner, seed):
        examples, figures = make_examples(rollouts, learner, 12)
        return learner.update(examples, np.random.default_rng(seed)) | figures

    model = make_exact()
    learner = make_exact_learner(model, advantage="ppo", epochs=2, updates_per_step=2)
    step(learner, 0)
    other = make_exact(seed=1)
    resumed = make_exact_learner(other, advantage="ppo", epochs=2, updates_per_step=2)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert step(learner, 1) == step(resumed, 1)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_explained_variance_worked_example():
    # returns 0, 2: variance 1; errors 0, 1: variance 1/4; so 3/4. A constant explains nothing.
    assert explained_variance(np.array([0.0, 1.0]), np.array([0.0, 2.0])) == pytest.approx(0.75)
    assert explained_variance(np.array([5.0, 5.0]), np.array([0.0, 2.0])) == pytest.approx(0.0)
    assert explained_variance(np.array([1.0, 2.0]), np.array([3.0, 3.0])) == 0.0
