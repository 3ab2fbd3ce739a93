from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from sara.engines.base import Completion, Request, Sampling
from sara.engines.huggingface import HuggingFaceEngine
from sara.seeds import rollout_seeds

SEEDS = rollout_seeds(0, 1, np.arange(4000), 0).tolist()
PROMPTS = [(11, 3, 116), (7, 9, 20, 31, 42, 53, 64, 75), (5,), (90, 91, 92, 93, 94), (90, 91, 92, 93, 95)]
MANY_ENDS = range(100, 132)  # so many end tokens that completions stop at very different lengths


@pytest.fixture(scope="module")
def model(make_policy) -> LlamaForCausalLM:
    return make_policy().model


def requests(seeds_per_prompt: int = 4) -> list[Request]:
    seeds = iter(SEEDS)
    return [Request(prompt, next(seeds)) for prompt in PROMPTS for _ in range(seeds_per_prompt)]


def reference_logprobs(model, request: Request, completion: Completion, temperature: float) -> np.ndarray:
    """Log-probability of each sampled token by one plain forward pass: no cache, no padding, no batch."""
    ids = [*request.prompt_ids, *completion.token_ids.tolist()]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    log_distribution = torch.log_softmax(logits / temperature, dim=-1)
    start = len(request.prompt_ids)
    return np.array([float(log_distribution[t - 1, ids[t]]) for t in range(start, len(ids))])


def assert_same(left: Completion, right: Completion) -> None:
    assert left.token_ids.tolist() == right.token_ids.tolist()
    np.testing.assert_allclose(left.behavior_logprobs, right.behavior_logprobs, atol=1e-4)
    assert left.finish_reason == right.finish_reason


def test_a_completion_does_not_depend_on_who_shares_its_batch_or_on_the_order_or_the_wave_size(model):
    sampling, asked = Sampling(1.0, 24), requests()
    together = HuggingFaceEngine(model, MANY_ENDS, 512).generate(asked, sampling)
    assert len({len(completion.token_ids) for completion in together}) > 4
    assert len({tuple(completion.token_ids.tolist()) for completion in together}) > 15
    for max_sequences in (1, 3):
        for left, right in zip(
            together, HuggingFaceEngine(model, MANY_ENDS, max_sequences).generate(asked, sampling), strict=True
        ):
            assert_same(left, right)
    order = np.random.default_rng(0).permutation(len(asked))
    shuffled = HuggingFaceEngine(model, MANY_ENDS, 7).generate([asked[i] for i in order], sampling)
    for place, i in enumerate(order):
        assert_same(shuffled[place], together[i])
    for i in (0, 9, 19):
        assert_same(HuggingFaceEngine(model, MANY_ENDS, 512).generate([asked[i]], sampling)[0], together[i])


def test_a_seed_decides_a_completion_and_another_seed_gives_another(model):
    engine, sampling = HuggingFaceEngine(model, [], 512), Sampling(1.0, 12)
    twice = engine.generate([Request(PROMPTS[0], SEEDS[0])] * 2 + [Request(PROMPTS[0], SEEDS[1])], sampling)
    assert_same(twice[0], twice[1])
    assert twice[0].token_ids.tolist() != twice[2].token_ids.tolist()
    assert_same(engine.generate([Request(PROMPTS[0], SEEDS[0])], sampling)[0], twice[0])
    largest = engine.generate([Request(PROMPTS[0], 2**64 - 1)], sampling)[0]
    assert len(largest.token_ids) == 12


def test_a_longer_limit_only_continues_a_completion(model):
    engine = HuggingFaceEngine(model, MANY_ENDS, 512)
    short, long = (engine.generate(requests(), Sampling(1.0, limit)) for limit in (5, 30))
    for cut, full in zip(short, long, strict=True):
        assert cut.token_ids.tolist() == full.token_ids[:5].tolist()


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_behavior_logprobs_are_those_of_a_plain_forward_pass_under_the_temperature(model, temperature):
    asked = requests(2)
    completions = HuggingFaceEngine(model, range(120, 132), 512).generate(asked, Sampling(temperature, 100))
    lengths = [len(completion.token_ids) for completion in completions]
    assert min(lengths) < 10 and max(lengths) > 20  # rows were dropped on the way
    for request, completion in zip(asked, completions, strict=True):
        expected = reference_logprobs(model, request, completion, temperature)
        np.testing.assert_allclose(completion.behavior_logprobs, expected, atol=1e-4)
        assert completion.behavior_logprobs.dtype == np.float32 and completion.token_ids.dtype == np.int64


def test_behavior_logprobs_hold_after_the_cache_has_grown_several_times(model):
    asked = requests(1)
    completions = HuggingFaceEngine(model, [], 3).generate(asked, Sampling(1.0, 200))
    for request, completion in zip(asked, completions, strict=True):
        assert len(completion.token_ids) == 200
        expected = reference_logprobs(model, request, completion, 1.0)
        np.testing.assert_allclose(completion.behavior_logprobs, expected, atol=1e-4)


SIZES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
OTHER_MODELS = {
    "qwen2, shared heads": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SIZES, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=128)
    ),
    "mistral, sliding window": lambda: MistralForCausalLM(
        MistralConfig(
            **SIZES, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=128, sliding_window=8
        )
    ),
    "gpt2, absolute positions": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_positions=128, n_embd=32, n_layer=2, n_head=4)
    ),
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_behavior_logprobs_hold_for_other_architectures(name):
    torch.manual_seed(0)
    other = OTHER_MODELS[name]().eval()
    with torch.no_grad():
        for weight in other.parameters():
            if weight.dim() == 2:
                weight.mul_(4)
    asked = [Request(tuple(token % 60 for token in request.prompt_ids), request.seed) for request in requests(2)]
    completions = HuggingFaceEngine(other, range(50, 60), 512).generate(asked, Sampling(0.8, 40))
    assert len({len(completion.token_ids) for completion in completions}) > 3
    for request, completion in zip(asked, completions, strict=True):
        expected = reference_logprobs(other, request, completion, 0.8)
        np.testing.assert_allclose(completion.behavior_logprobs, expected, atol=1e-4)


def test_sampled_frequencies_follow_the_distribution(model):
    prompt, temperature = PROMPTS[0], 0.7
    asked = [Request(prompt, seed) for seed in SEEDS]
    completions = HuggingFaceEngine(model, [], 512).generate(asked, Sampling(temperature, 1))
    sampled = np.bincount([int(completion.token_ids[0]) for completion in completions], minlength=132)

    def p_value(at: float) -> float:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
        expected = torch.softmax(logits / at, dim=-1).numpy() * len(asked)
        is_frequent = expected >= 5
        observed = np.append(sampled[is_frequent], sampled[~is_frequent].sum())
        return stats.chisquare(observed, np.append(expected[is_frequent], expected[~is_frequent].sum())).pvalue

    assert p_value(temperature) > 0.01
    assert p_value(temperature * 1.15) < 1e-4  # the test sees a distribution that is a little off


def test_the_tokens_of_one_completion_are_drawn_independently(make_policy):
    uniform = make_policy(sharpness=0.0).model  # all weights 0: every token has chance 1/132 whatever came before
    asked = [Request(PROMPTS[0], seed) for seed in SEEDS]
    completions = HuggingFaceEngine(uniform, [], 4000).generate(asked, Sampling(1.0, 3))
    tokens = np.array([completion.token_ids for completion in completions])  # (N, 3)
    for first, second in ((0, 1), (1, 2), (0, 2)):
        table = np.zeros((4, 4))
        np.add.at(table, (tokens[:, first] // 33, tokens[:, second] // 33), 1)
        assert stats.chi2_contingency(table).pvalue > 0.01
    for completion in completions[:10]:
        np.testing.assert_allclose(completion.behavior_logprobs, -np.log(132), atol=1e-6)


def test_a_temperature_near_zero_is_greedy_decoding(model):
    asked = [Request(prompt, SEEDS[i]) for i, prompt in enumerate(PROMPTS)]
    end = 120
    completions = HuggingFaceEngine(model, [end], 2).generate(asked, Sampling(1e-4, 30))
    for request, completion in zip(asked, completions, strict=True):
        ids = torch.tensor([request.prompt_ids])
        generated = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=30, eos_token_id=end
        )
        assert completion.token_ids.tolist() == generated[0, len(request.prompt_ids) :].tolist()
        np.testing.assert_allclose(completion.behavior_logprobs, 0.0, atol=1e-3)


def test_a_completion_stops_with_its_first_end_token_or_is_cut_without_one(model):
    completions = HuggingFaceEngine(model, MANY_ENDS, 512).generate(requests(20), Sampling(1.0, 6))
    reasons = [completion.finish_reason for completion in completions]
    assert reasons.count("stop") > 20 and reasons.count("length") > 5
    stopped_at_the_limit = 0
    for completion in completions:
        ends = [token in MANY_ENDS for token in completion.token_ids.tolist()]
        assert not any(ends[:-1])
        assert len(completion.behavior_logprobs) == len(ends)
        if completion.finish_reason == "stop":
            assert ends[-1]
            stopped_at_the_limit += len(ends) == 6
        else:
            assert not ends[-1] and len(ends) == 6
    assert stopped_at_the_limit > 0


def test_a_prompt_is_computed_once_for_its_group_and_finished_rows_leave_the_batch(model):
    shapes: list[tuple[int, int]] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        completions = HuggingFaceEngine(model, range(120, 132), 512).generate(requests(8), Sampling(1.0, 60))
    finally:
        hook.remove()
    longest_prompt = max(map(len, PROMPTS))
    assert shapes[0] == (len(PROMPTS), longest_prompt)  # 40 requests, 5 prompts
    assert shapes[1] == (40, 1) and {length for _, length in shapes[1:]} == {1}
    decoded = sum(rows for rows, _ in shapes[1:])
    wanted = sum(len(completion.token_ids) - 1 for completion in completions)
    assert wanted <= decoded <= wanted / 0.8 + 40  # rows leave once fewer than 80% of them are active


def test_a_single_token_can_be_the_whole_completion(model):
    completion = HuggingFaceEngine(model, range(132), 512).generate(requests(1), Sampling(1.0, 9))[0]
    assert len(completion.token_ids) == 1 and completion.finish_reason == "stop"
    cut = HuggingFaceEngine(model, [], 512).generate(requests(1), Sampling(1.0, 1))[0]
    assert len(cut.token_ids) == 1 and cut.finish_reason == "length"


def test_no_requests_give_no_completions(model):
    assert HuggingFaceEngine(model, [1], 512).generate([], Sampling(1.0, 5)) == []


def test_a_sync_raises_the_policy_version_and_the_new_weights_are_sampled_from(make_policy):
    policy, asked, sampling = make_policy(), requests(1), Sampling(1.0, 8)
    engine = HuggingFaceEngine(policy.model, [], 512)
    before = engine.generate(asked, sampling)
    assert {completion.policy_version for completion in before} == {0}
    with torch.no_grad():
        for weight, other in zip(policy.model.parameters(), make_policy(seed=1).model.parameters(), strict=True):
            weight.copy_(other)
    engine.sync_weights(policy.model.named_parameters())
    after = engine.generate(asked, sampling)
    assert {completion.policy_version for completion in after} == {1} and engine.policy_version == 1
    assert {completion.policy_version for completion in before} == {0}
    for request, old, new in zip(asked, before, after, strict=True):
        assert old.token_ids.tolist() != new.token_ids.tolist()
        np.testing.assert_allclose(
            new.behavior_logprobs, reference_logprobs(policy.model, request, new, 1.0), atol=1e-4
        )


def test_sampling_leaves_the_weights_and_torchs_generator_alone(model):
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    HuggingFaceEngine(model, [1], 512).generate(requests(1), Sampling(1.0, 5))
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())


def test_dropout_is_off_while_sampling():
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    dropping = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)).train()
    asked = [Request((3, 4, 5), seed) for seed in SEEDS[:4]]
    completions = HuggingFaceEngine(dropping, [], 512).generate(asked, Sampling(1.0, 10))
    dropping.eval()
    for request, completion in zip(asked, completions, strict=True):
        np.testing.assert_allclose(
            completion.behavior_logprobs, reference_logprobs(dropping, request, completion, 1.0), atol=1e-4
        )
