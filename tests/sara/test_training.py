"""One training step: in which order engine and learner use the machine."""

from __future__ import annotations

import pytest

from sara.config import RunConfig
from sara.datasets import load_problems
from sara.learner.experience import make_examples
from sara.models import load_policy
from sara.training import Trainer


def test_a_belief_is_what_was_known_before_the_step_and_takes_the_step_in_afterwards(monkeypatch):
    config = RunConfig.model_validate(
        {
            "strategy": "uniform",
            "data": {"train_size": 2, "heldout_size": 4, "sizes": {2: 1.0}},
            "allocation": {"groups_per_step": 2, "k": 4, "probe": 2, "alpha0": 1.0, "beta0": 3.0},
            "engine": {"max_new_tokens": 40},
            "learner": {"advantage": "dr_grpo", "baseline": "belief"},
        }
    )
    trainer = Trainer(config, load_policy(config.model), *load_problems(config.data))
    seen = []

    def recorded(rollouts, learner, max_new_tokens, beliefs):
        seen.append(dict(zip((r.prompt for r in rollouts), beliefs.tolist(), strict=True)))
        return make_examples(rollouts, learner, max_new_tokens, beliefs)

    monkeypatch.setattr("sara.training.make_examples", recorded)
    first = trainer.step().collection.ledger
    trainer.step()
    # Prior Beta(1, 3): 1/4. Then a posterior of the first step's outcomes, none of which had been counted before.
    assert seen[0] == {0: 0.25, 1: 0.25}
    outcomes = zip(first.prompts.tolist(), first.n.tolist(), first.s.tolist(), strict=True)
    assert seen[1] == pytest.approx({prompt: (1 + s) / (4 + n) for prompt, n, s in outcomes})
    assert sum(first.s) > 0


def test_the_engine_gives_its_memory_up_before_the_update_and_gets_new_weights_after_it(monkeypatch):
    config = RunConfig.model_validate(
        {
            "strategy": "ds",
            "data": {"train_size": 40, "heldout_size": 4, "sizes": {2: 1.0}},
            "allocation": {"groups_per_step": 2, "k": 4, "probe": 2},
            "engine": {"max_new_tokens": 40},
        }
    )
    trainer = Trainer(config, load_policy(config.model), *load_problems(config.data))
    calls = []

    def recorded(owner, name):
        original = getattr(owner, name)

        def call(*arguments, **options):
            calls.append((name, trainer.engine.policy_version))
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    recorded(trainer.engine, "release_memory")
    recorded(trainer.learner, "update")
    recorded(trainer.engine, "sync_weights")
    recorded(trainer.sampler, "draw")
    trainer.step()
    trainer.step()
    without_draws = [call for call in calls if call[0] != "draw"]
    assert without_draws == [
        *[("release_memory", 0), ("update", 0), ("sync_weights", 0)],
        *[("release_memory", 1), ("update", 1), ("sync_weights", 1)],
    ]
    assert calls.index(("draw", 1)) > calls.index(("sync_weights", 0))
    assert all(calls.index(("draw", version)) < calls.index(("release_memory", version)) for version in (0, 1))
