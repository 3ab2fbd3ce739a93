"""What cannot be trained is refused in one line before anything is drawn."""

from __future__ import annotations

import pytest
from torch import nn

from sara.config import LearnerConfig, RunConfig
from sara.config_file import ConfigError, load_config
from sara.datasets import load_problems
from sara.engines.huggingface import HuggingFaceEngine
from sara.learner.reference import make_reference
from sara.learner.setup import make_learner, require_room, require_same_vocabulary
from sara.models import Reader, load_policy
from sara.preparation import prepare_problems
from sara.rollouts import PromptPool
from sara.training import Trainer


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


@pytest.fixture
def as_prepared(tokenizer):
    """The preparation of a run, which knows the model by its configuration alone."""

    def prepare(**learner):
        problems = {"train_size": 16, "heldout_size": 4, "sizes": {2: 1.0}}
        return prepare_problems(RunConfig(learner=learner, data=problems), Reader(tokenizer, 512))

    return prepare


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("lm_head", "'lm_head' is the embedding or the output layer; an engine is given full weights"),
        ("embed_tokens", "'embed_tokens' is the embedding or the output layer"),
        ("c_attn", "no layer 'c_attn'; this model has down_proj, gate_proj, k_proj, "),
        ("input_layernorm", "'input_layernorm' is no linear layer; this model has down_proj, "),
    ],
)
def test_adapters_that_the_model_cannot_have_are_refused_before_its_weights_are_read(
    as_prepared, monkeypatch, target, line
):
    pytest.importorskip("peft", reason="LoRA needs the extra `lora`")
    monkeypatch.setattr("sara.models.AutoModelForCausalLM.from_pretrained", None)
    with pytest.raises(ValueError, match=line) as caught:
        as_prepared(lora_rank=4, lora_targets=target)
    assert "\n" not in str(caught.value)
    assert as_prepared(lora_rank=4, lora_targets="q_proj").train is not None


def test_adapters_without_peft_are_refused_before_anything_is_drawn(as_prepared, monkeypatch):
    monkeypatch.setattr("sara.learner.adapters.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"lora_rank is set, but peft is not installed; install the extra: pip install"
    ):
        as_prepared(lora_rank=4)
    assert as_prepared().train is not None


def test_layers_that_cannot_be_recomputed_are_refused_before_anything_is_drawn(as_prepared, monkeypatch):
    assert as_prepared(gradient_checkpointing=True).train is not None
    monkeypatch.setattr("sara.learner.setup.structure_of", lambda config: nn.Linear(2, 2))
    with pytest.raises(ValueError, match="gradient_checkpointing: Linear has no layers"):
        as_prepared(gradient_checkpointing=True)


def test_what_cannot_be_trained_starts_no_engine_and_what_fails_later_leaves_none(monkeypatch):
    pytest.importorskip("peft", reason="LoRA needs the extra `lora`")
    problems = {"train_size": 16, "heldout_size": 4, "sizes": {2: 1.0}}
    config = RunConfig(data=problems)
    policy, train_and_heldout = load_policy(config.model), load_problems(config.data)
    started, closed = [], []

    class Watched(HuggingFaceEngine):
        def __init__(self, *_):
            super().__init__(policy.model, policy.end_token_ids, 8)
            started.append(self)

        def close(self):
            closed.append(self)

    monkeypatch.setattr("sara.training.make_engine", Watched)
    with pytest.raises(ValueError, match="'lm_head' is the embedding"):
        Trainer(RunConfig(learner={"lora_rank": 4, "lora_targets": "lm_head"}), policy, *train_and_heldout)
    assert not started
    with pytest.raises(ValueError, match="micro_batch_tokens = 10; expected at least"):
        Trainer(RunConfig(learner={"micro_batch_tokens": 10}), policy, *train_and_heldout)
    assert len(started) == 1 and closed == started
    Trainer(config, policy, *train_and_heldout)
    assert len(started) == 2 and closed == started[:1]


def test_a_penalty_that_would_begin_before_the_first_token_is_refused():
    penalty = {"overlong": "penalty", "overlong_window": 33}
    with pytest.raises(ValueError, match=r"overlong_window = 33; expected at most engine.max_new_tokens = 32"):
        RunConfig(learner=penalty, engine={"max_new_tokens": 32})
    assert RunConfig(learner=penalty, engine={"max_new_tokens": 33}).learner.overlong_window == 33
    assert RunConfig(learner={"overlong_window": 33}, engine={"max_new_tokens": 32}).learner.overlong == "keep"


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
