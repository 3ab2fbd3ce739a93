"""Several algorithms in one comparison, and a run that diverges: end to end."""

from __future__ import annotations

import pytest

from sara.config import CompareConfig, ModelConfig
from sara.learner import Learner, TrainingDiverged
from sara.models import load_policy
from sara.reporting import render_text, summary_table

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_comparison_of_algorithms_has_a_row_for_each_pair_and_shares_of_the_same_algorithms_ds(small):
    from flows.compare import compare
    from tasks.comparisons import load_comparison

    values = small.model_dump() | {"algorithms": ("ppo", "grpo"), "training": {"steps": 1, "threads": 1}}
    config = CompareConfig.model_validate(values)
    result = compare(config)
    comparison = load_comparison(config.tracking.uri, config.tracking.experiment, result.mlflow_run_id)
    rows = summary_table(comparison)
    assert [row.label for row in rows] == ["base model", "GRPO, DS", "GRPO, SARA", "PPO, DS", "PPO, SARA"]
    assert [row.rollouts_pct for row in rows if row.label.endswith("DS")] == [100.0, 100.0]
    assert rows[2].rollouts == rows[4].rollouts  # the first step is drawn from the same policy
    assert "PPO, SARA" in render_text(rows)
    trained = {
        name: load_policy(ModelConfig(path=str(result.folder / f"{name}-sara-seed0" / "model")))
        for name in ("grpo", "ppo")
    }
    name = "model.layers.0.mlp.up_proj.weight"
    assert not trained["grpo"].model.state_dict()[name].equal(trained["ppo"].model.state_dict()[name])


def test_a_run_that_diverges_keeps_the_last_good_weights_and_says_where(small, monkeypatch):
    from flows.train import train_and_evaluate

    update, calls = Learner.update, []

    def fail_in_the_second_step(self, examples, rng):
        calls.append(len(examples))
        if len(calls) == 2:
            raise TrainingDiverged("an update over prompts 3 was left out: training ends with the last good weights")
        return update(self, examples, rng)

    monkeypatch.setattr(Learner, "update", fail_in_the_second_step)
    with pytest.raises(ValueError, match=r"step 2: an update over prompts 3 .* kept in .*last_good_model") as caught:
        train_and_evaluate(small.run("sara", 0))
    assert "\n" not in str(caught.value)
    kept = next(small.output_dir.rglob("last_good_model"))
    base, found = load_policy(small.model).model, load_policy(ModelConfig(path=str(kept))).model
    name = "model.layers.0.mlp.up_proj.weight"
    assert not base.state_dict()[name].equal(found.state_dict()[name])  # the first step's update is in it
