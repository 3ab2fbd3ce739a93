from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sara.config import LearnerConfig
from sara.learner.optimizer import Optimizer, WeightGroup, schedule_factor


def make_optimizer(weight: nn.Parameter, **settings) -> Optimizer:
    config = LearnerConfig(**{"max_grad_norm": 1e9, "beta1": 0.9, "beta2": 0.99} | settings)
    return Optimizer([WeightGroup("policy", [weight], config.learning_rate)], config, 10)


def test_a_step_is_adamws_by_the_formula():
    # Loshchilov and Hutter 2019, algorithm 2, two steps on one weight in float64.
    weight = nn.Parameter(torch.tensor([0.5], dtype=torch.float64))
    optimizer = make_optimizer(weight, learning_rate=0.1, weight_decay=0.2)
    expected, m, v = 0.5, 0.0, 0.0
    for t, gradient in enumerate((0.3, -0.7), start=1):
        optimizer.zero_grad()
        (gradient * weight).sum().backward()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
        expected -= 0.1 * 0.2 * expected
        expected -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
        assert weight.item() == pytest.approx(expected, abs=1e-12)


def test_steps_too_small_for_bfloat16_are_kept_in_the_masters():
    # Steps of 1e-5 at 1.0, where bfloat16's neighbours are 0.004 and 0.008 away: 500 of them are 0.005.
    moved = {}
    for is_mastered in (True, False):
        weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        optimizer = make_optimizer(weight, learning_rate=1e-5, master_weights=is_mastered)
        for _ in range(500):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
        moved[is_mastered] = float(1 - weight[0])
    assert moved[False] == 0.0
    assert moved[True] == pytest.approx(0.005, abs=0.002)


def test_without_masters_the_state_is_float32_or_not_as_configured():
    """With float32 states a step is that of float32 weights, rounded; and nothing of that width is kept of a weight."""
    wide = nn.Parameter(torch.full((40,), 1.5))
    float32 = make_optimizer(wide, learning_rate=0.1)
    narrow = nn.Parameter(torch.full((40,), 1.5, dtype=torch.bfloat16))
    states = make_optimizer(narrow, learning_rate=0.1, master_weights=False)
    coefficients = torch.linspace(-1, 2, 40).bfloat16()
    for _ in range(3):
        for weight, optimizer in ((wide, float32), (narrow, states)):
            optimizer.zero_grad()
            (coefficients.to(weight.dtype) * weight).sum().backward()
            optimizer.step()
        assert torch.equal(narrow, wide.bfloat16()) and not torch.equal(narrow.float(), wide)
        with torch.no_grad():
            wide.copy_(narrow)  # what was rounded off is lost without masters
    (state,) = states.adamw.state.values()
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == torch.float32
    ((_, master),) = states.masters
    assert master.untyped_storage().nbytes() == 4 and states.state_dict()["masters"] == []
    other = nn.Parameter(narrow.detach().clone())
    resumed = make_optimizer(other, learning_rate=0.1, master_weights=False)
    resumed.load_state_dict(states.state_dict())
    for weight, optimizer in ((narrow, states), (other, resumed)):
        optimizer.zero_grad()
        (coefficients * weight).sum().backward()
        optimizer.step()
    assert torch.equal(narrow, other)
    bare = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    nothing = make_optimizer(bare, master_weights=False, float32_states=False)
    bare.sum().backward()
    nothing.step()
    assert nothing.adamw.state[bare]["exp_avg"].dtype == torch.bfloat16 and nothing.masters == []


def test_micro_batches_of_a_narrow_model_add_up_in_float32():
    # 256 + 1 is 256 in bfloat16; in float32 the sum of 1 gradient of 256 and 8 of 1 is 264.
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer = make_optimizer(weight)
    optimizer.zero_grad()
    for size in (256.0, *[1.0] * 8):
        (size * weight).sum().backward()
    assert float(optimizer.clip()["policy"]) == 264.0
    assert weight.grad is None


def test_masters_are_saved_and_loaded_beside_the_rounded_weights():
    def train(optimizer, weight, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (weight * torch.tensor([1.0, -2.0], dtype=torch.bfloat16)).sum().backward()
            optimizer.step()

    weight = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = make_optimizer(weight, learning_rate=1e-4)
    train(optimizer, weight, 20)
    again = nn.Parameter(weight.detach().clone())
    resumed = make_optimizer(again, learning_rate=1e-4)
    resumed.load_state_dict(optimizer.state_dict())
    train(optimizer, weight, 60)
    train(resumed, again, 60)
    assert torch.equal(weight, again) and float(weight[0]) < 1.0
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(optimizer.masters, resumed.masters, strict=True))


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        # warm-up over 1 step: 1/2, then 1; of 5 steps 4 are left: linear 1, 3/4, 1/2, 1/4
        ({"schedule": "constant"}, [0.5, 1, 1, 1, 1]),
        ({"schedule": "linear"}, [0.5, 1, 0.75, 0.5, 0.25]),
        ({"schedule": "linear", "final_rate_share": 0.2}, [0.5, 1, 0.8, 0.6, 0.4]),
        # (1 + cos(pi / 4)) / 2 = 0.853553, then 1/2, then 0.146447
        ({"schedule": "cosine"}, [0.5, 1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_schedules_worked_out(settings, factors):
    factor = schedule_factor(LearnerConfig(warmup_steps=1, **settings), 5)
    assert [factor(step) for step in range(5)] == pytest.approx(factors, abs=1e-6)


def test_a_schedule_needs_a_length():
    with pytest.raises(ValueError, match=r"learner.schedule = 'cosine'; expected 'constant'"):
        schedule_factor(LearnerConfig(schedule="cosine"), None)
