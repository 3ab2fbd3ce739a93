"""A prompt that is read once for its whole group: the same gradient from fewer tokens, where it is exact and pays."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from sara.learner import TrainingExample
from sara.learner.experience import make_examples
from sara.learner.shared_prompts import SharedPrompts, can_share, sharing_pays

SIZES = {
    "vocab_size": 23,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def update(learner, examples, seed=0):
    return learner.update(examples, np.random.default_rng(seed))


@pytest.fixture
def group_examples(make_rollout):
    """Groups of 4 with prompts of 1, 4 and 7 tokens; responses of 1 to 9 tokens, masked here and there."""

    def make(**known) -> list[TrainingExample]:
        rng = np.random.default_rng(3)
        examples = []
        for i in rng.permutation(12):
            prompt, length = int(i) // 4, int(rng.choice([1, 1, 2, 5, 9]))
            prompt_ids = [2 + prompt, *range(10, 10 + 3 * prompt)]
            rollout = make_rollout(prompt_ids, rng.integers(0, 23, length), prompt, behavior=rng.normal(-2, 1, length))
            mask = None if length < 3 else rng.random(length) < 0.7
            examples.append(TrainingExample(rollout, float(rng.normal()), mask, **known))
        return examples

    return make


def tokens_read(model) -> list[int]:
    """Tokens of each forward pass from now on."""
    seen: list[int] = []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    return seen


@pytest.mark.parametrize("micro_batch_tokens", [21, 1000])
@pytest.mark.parametrize(
    "settings", [{}, {"epochs": 2, "updates_per_step": 2}, {"entropy_coef": 0.1}, {"lora_rank": 2}]
)
def test_shared_prompts_change_no_gradient_and_no_figure(
    make_exact, make_exact_learner, group_examples, settings, micro_batch_tokens
):
    if "lora_rank" in settings:
        pytest.importorskip("peft", reason="LoRA needs the extra `lora`")
    settings = settings | {"micro_batch_tokens": micro_batch_tokens}
    plain, shared, examples = make_exact(), make_exact(), group_examples()
    learners = make_exact_learner(plain, share_prompts=False, **settings), make_exact_learner(shared, **settings)
    seen = tokens_read(plain), tokens_read(shared)
    one, two = (update(learner, examples) for learner in learners)
    assert one == pytest.approx(two, rel=1e-9, abs=1e-12)
    assert sum(seen[1]) < sum(seen[0])
    found = 0.0
    for left, right in zip(plain.parameters(), shared.parameters(), strict=True):
        assert (left.grad is None) == (right.grad is None)
        if left.grad is not None:
            torch.testing.assert_close(left.grad, right.grad, atol=1e-10, rtol=0)
            found = max(found, float(left.grad.abs().max()))
        torch.testing.assert_close(left, right, atol=1e-9, rtol=0)
    assert found > 1e-3, "a comparison of zeros proves nothing"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_rotated_positions_and_grouped_heads_go_on_where_the_prompt_ended(
    make_exact_learner, group_examples, attention
):
    torch.manual_seed(0)
    config = MistralConfig(**SIZES, sliding_window=None, attn_implementation=attention)
    plain = MistralForCausalLM(config).double().eval()
    shared, examples = copy.deepcopy(plain), group_examples()
    update(make_exact_learner(plain, share_prompts=False), examples)
    learner = make_exact_learner(shared)
    assert learner.shares_prompts
    update(learner, examples)
    for left, right in zip(plain.parameters(), shared.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad, atol=1e-6, rtol=1e-5)  # the norms compute in float32


def test_a_value_head_learns_the_same_from_shared_prompts(make_exact, make_exact_learner, group_examples):
    found = []
    for is_shared in (False, True):
        learner = make_exact_learner(make_exact(), advantage="ppo", share_prompts=is_shared)
        assert learner.shares_prompts is is_shared
        examples, _ = make_examples([e.rollout for e in group_examples()], learner, 12)
        metrics = update(learner, examples)
        found.append([*metrics.values(), *learner.value.head.weight.detach().flatten().tolist()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8, atol=1e-12)


def test_each_different_prompt_is_read_once_and_a_response_without_its_last_token(
    make_exact, make_exact_learner, make_rollout
):
    # Two prompts of 4 tokens, four responses of 3 each. Read: 2 * 4 + 8 * 2 = 24 tokens; 8 * 7 = 56 without sharing.
    rollouts = [make_rollout((2 + i % 2, 5, 6, 7), (8, 9, 10), i % 2) for i in range(8)]
    examples = [TrainingExample(rollout, 1.0) for rollout in rollouts]
    for is_shared, expected in ((True, 24), (False, 56)):
        model = make_exact()
        learner = make_exact_learner(model, share_prompts=is_shared)
        seen = tokens_read(model)
        update(learner, examples)
        assert sum(seen) == expected


def test_sharing_pays_from_a_tenth_of_the_tokens_on_and_where_prompts_fit():
    # Eight rollouts with one prompt of 4 tokens save 7 * 4 = 28. A tenth of all up to 280 tokens, 248 of responses.
    prompts = [(1, 2, 3, 4)] * 8
    assert sharing_pays(prompts, 248, 100) and not sharing_pays(prompts, 249, 100)
    assert sharing_pays(prompts, 8, 4) and not sharing_pays(prompts, 8, 3)
    # Two of 4 and 1 tokens are read as two rows of 4.
    assert sharing_pays([*prompts, *[(5,)] * 8], 8, 8) and not sharing_pays([*prompts, *[(5,)] * 8], 8, 7)
    assert not sharing_pays([(i,) for i in range(8)], 8, 100) and not sharing_pays([], 0, 100)


def test_prompts_are_shared_only_where_every_layer_looks_at_all_that_came_before(make_exact):
    assert can_share(make_exact())
    assert can_share(MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)))
    assert not can_share(MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)))
    assert not can_share(Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8)))  # every other layer has a window
    assert not can_share(MambaForCausalLM(MambaConfig(vocab_size=23, hidden_size=16, num_hidden_layers=1)))
    assert not can_share(make_exact(dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "settings",
    [{"layout": "packed"}, {"gradient_checkpointing": True}, {"advantage": "ppo", "value": "model"}],
)
def test_what_reads_whole_rows_shares_no_prompts(make_exact, make_exact_learner, settings):
    assert make_exact_learner(make_exact()).shares_prompts
    assert not make_exact_learner(make_exact(), **settings).shares_prompts


def test_states_of_a_prompt_are_those_that_it_has_alone(make_exact):
    model = make_exact()
    prompts = [(2, 3, 4, 5), (6,), (7, 8)]
    with torch.no_grad():
        shared = SharedPrompts(model, prompts)
        alone = [model.transformer(input_ids=torch.tensor([prompt])).last_hidden_state[0, -1] for prompt in prompts]
    torch.testing.assert_close(shared.ends, torch.stack(alone), atol=1e-12, rtol=0)
    cache, is_prompt = shared.cache(shared.places([(7, 8), (6,), (7, 8)]))
    assert is_prompt.tolist() == [[True, True], [True, False], [True, True]]
    assert cache.get_seq_length() == 2
