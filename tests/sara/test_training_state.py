"""A trainer that is saved and loaded takes the same next steps, bit for bit, whatever it is made of."""

from __future__ import annotations

import pytest
import torch

from sara.checkpoints import Checkpoint, CheckpointStore
from sara.config import RunConfig
from sara.datasets import load_problems
from sara.models import load_policy
from sara.strategies import STRATEGIES
from sara.training import Trainer

ALGORITHMS = {
    "ppo": {"learner": {"advantage": "ppo"}},
    "rloo": {"learner": {"advantage": "rloo"}},
    "belief": {"learner": {"advantage": "dr_grpo", "baseline": "belief"}},
    "kl": {"learner": {"kl_coef": 0.1}},
    "lora": {"learner": {"lora_rank": 4}},
    "bfloat16": {"model": {"dtype": "bfloat16"}},
    "stream": {"allocation": {"schedule": "stream"}},
}


def make_config(strategy: str = "sara+dps", **changes) -> RunConfig:
    values = {
        "strategy": strategy,
        "data": {"train_size": 40, "heldout_size": 4, "sizes": {2: 1.0, 3: 1.0}},
        "allocation": {"groups_per_step": 3, "k": 4, "probe": 2, "increment": 2, "audit_rate": 0.5},
        "engine": {"max_new_tokens": 40},
        "learner": {"learning_rate": 1e-3, "warmup_steps": 5},
    }
    for section, settings in changes.items():
        values[section] = values.get(section, {}) | settings
    return RunConfig.model_validate(values)


def make_trainer(config: RunConfig) -> Trainer:
    return Trainer(config, load_policy(config.model), *load_problems(config.data))


def taken(trainer: Trainer) -> tuple[dict[str, float], list[torch.Tensor]]:
    metrics = {name: value for name, value in trainer.step().metrics.items() if not name.startswith("time/")}
    return metrics, [weight.detach().clone() for weight in trainer.policy.model.parameters()]


def skip_without(name: str) -> None:
    if name == "lora":
        pytest.importorskip("peft", reason="LoRA needs the extra [lora]")


def assert_goes_on_alike(config: RunConfig, tmp_path) -> None:
    trainer, store = make_trainer(config), CheckpointStore(tmp_path)
    for _ in range(2):
        trainer.step()
    store.save(Checkpoint(2, trainer.policy.model.state_dict(), trainer.state_dict(), {}))
    expected = [taken(trainer) for _ in range(2)]
    resumed, saved = make_trainer(config), store.load_newest()
    resumed.load_state_dict(saved.state, saved.weights)
    for metrics, weights in expected:
        got_metrics, got_weights = taken(resumed)
        assert got_metrics == metrics
        assert all(torch.equal(got, weight) for got, weight in zip(got_weights, weights, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_goes_on_bit_for_bit(strategy, tmp_path):
    assert_goes_on_alike(make_config(strategy), tmp_path)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_part_of_the_learner_goes_on_bit_for_bit(name, tmp_path):
    skip_without(name)
    assert_goes_on_alike(make_config(**ALGORITHMS[name]), tmp_path)


def test_a_round_that_was_dropped_leaves_no_trace():
    config = make_config()
    trainer, other = make_trainer(config), make_trainer(config)
    for each in (trainer, other):
        each.step()
    before, score, calls = trainer.position(), trainer.sampler._score, []

    def interrupted(*arguments):
        calls.append(trainer.is_collecting)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return score(*arguments)

    trainer.sampler._score = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.step()
    assert all(calls) and trainer.is_collecting
    trainer.sampler._score = score
    trainer.rewind(before)
    assert not trainer.is_collecting and not trainer.is_torn
    assert taken(trainer)[0] == taken(other)[0]
