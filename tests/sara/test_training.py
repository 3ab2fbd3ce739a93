"""One training step: in which order engine and learner use the machine."""

from __future__ import annotations

from sara.config import RunConfig
from sara.datasets import load_problems
from sara.models import load_policy
from sara.training import Trainer


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
