"""What cannot be trained is refused in one line before anything is drawn."""

from __future__ import annotations

import pytest

from sara.config import LearnerConfig, RunConfig
from sara.config_file import ConfigError, load_config
from sara.engines.huggingface import HuggingFaceEngine
from sara.learner.reference import make_reference
from sara.learner.setup import make_learner, require_room, require_same_vocabulary
from sara.models import Reader, load_policy
from sara.rollouts import PromptPool


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["learner.advantage=gropo"], "algorithm 'gropo' is unknown; did you mean 'grpo'?"),
        (["learner.clip_low=0.28", "learner.clip_high=0.2"], "clip_low = 0.28, learner.clip_high = 0.2; expected"),
        (
            ["learner.advantage=ppo", "learner.value=none"],
            "learner.value = 'none' with advantage = 'ppo'; expected",
        ),
        (["learner.baseline=belief"], "learner.baseline = 'belief' with advantage = 'grpo'; expected one of dr_grpo"),
        (["learner.reference=builtin"], "learner.reference = 'builtin' with kl_coef = 0; expected kl_coef above 0"),
        (["learner.lora_targets=q_proj"], "learner.lora_targets is set with lora_rank = 0"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(overrides, line):
    with pytest.raises(ConfigError) as caught:
        load_config(RunConfig, None, overrides)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_a_token_budget_smaller_than_the_longest_sequence_is_refused():
    config = RunConfig(learner={"micro_batch_tokens": 200}, engine={"max_new_tokens": 192})
    require_room(config, [(1,) * 8, (1,) * 3])
    with pytest.raises(ValueError, match="micro_batch_tokens = 200; expected at least 201, the longest prompt and"):
        require_room(config, [(1,) * 9, (1,) * 3])


def test_a_reference_with_another_vocabulary_is_refused(tokenizer, make_exact, make_exact_learner):
    config = RunConfig(learner={"kl_coef": 0.1, "reference": "builtin"})
    require_same_vocabulary(config, Reader(tokenizer, 512))

    class Other:
        def get_vocab(self):
            return {"a": 0}

    with pytest.raises(ValueError, match=r"learner.reference = 'builtin'; its vocabulary is not that of model.path"):
        require_same_vocabulary(config, Reader(Other(), 512))
    absent = RunConfig(learner={"kl_coef": 0.1, "reference": "absent/model"})
    with pytest.raises(ValueError, match=r"learner.reference = 'absent/model'; expected"):
        require_same_vocabulary(absent, Reader(tokenizer, 512))
    learner = make_exact_learner(make_exact())
    with pytest.raises(ValueError, match=r"its vocabulary has 24 entries, the policy's 23"):
        make_reference(learner.scorer, make_exact(vocab_size=24))


@pytest.mark.parametrize(("dtype", "cap"), [("float32", None), ("bfloat16", 2.0)])
def test_importance_weights_are_off_where_the_gap_is_zero_by_construction(tokenizer, dtype, cap):
    config = RunConfig(model={"dtype": dtype}, learner={"kl_coef": 0.1})
    policy = load_policy(config.model)
    pool = PromptPool(policy, [], config.engine.max_new_tokens)
    pool.prompt_ids = [(1, 2, 3)]
    engine = HuggingFaceEngine(policy.model, policy.end_token_ids, 8)
    learner = make_learner(config, policy, engine, pool)
    assert learner.objective.tis_cap == cap
    engine.shares_model = False
    assert make_learner(config, policy, engine, pool).objective.tis_cap == LearnerConfig().tis_cap
