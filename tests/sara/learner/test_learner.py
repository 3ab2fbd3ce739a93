from __future__ import annotations

import copy
import io
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

from sara.config import LearnerConfig
from sara.engines.base import Completion, Request, Sampling
from sara.engines.huggingface import HuggingFaceEngine
from sara.learner import Learner, TrainingDiverged, TrainingExample
from sara.learner import micro_batches as learner_module
from sara.rollouts import Rollout
from sara.seeds import rollout_seeds

TEMPERATURE = 0.8
UNCLIPPED = 1e9
PROMPTS = [(11, 3, 116), (7, 9, 20, 31, 42, 53, 64, 75), (5, 6), (90, 91, 92, 93, 94)]


def make_example(
    prompt_ids: Sequence[int], token_ids: Sequence[int], advantage: float, prompt: int = 0, behavior=None
) -> TrainingExample:
    behavior = np.full(len(token_ids), -1.0) if behavior is None else behavior
    completion = Completion(np.array(token_ids), np.asarray(behavior, dtype=np.float32), "stop", 0)
    return TrainingExample(Rollout(prompt, 0, tuple(prompt_ids), completion, "", 1), advantage)


def sampled_examples(model, per_prompt: int = 3, max_new_tokens: int = 20) -> list[TrainingExample]:
    """Rollouts that the engine sampled from the model, of mixed lengths, with advantages that sum to no zero."""
    prompts = np.repeat(np.arange(len(PROMPTS)), per_prompt)
    slots = np.tile(np.arange(per_prompt), len(PROMPTS))
    seeds = rollout_seeds(0, 1, prompts, slots).tolist()
    requests = [Request(PROMPTS[prompt], seed) for prompt, seed in zip(prompts, seeds, strict=True)]
    engine = HuggingFaceEngine(model, range(115, 132), 512)
    completions = engine.generate(requests, Sampling(TEMPERATURE, max_new_tokens))
    assert len({len(completion.token_ids) for completion in completions}) > 5
    advantages = np.random.default_rng(0).normal(size=len(prompts))
    return [
        TrainingExample(Rollout(int(p), int(s), PROMPTS[p], completion, "", 1), float(advantage))
        for p, s, completion, advantage in zip(prompts, slots, completions, advantages, strict=True)
    ]


def make_learner(model, temperature: float = TEMPERATURE, **settings) -> Learner:
    return Learner(
        model,
        LearnerConfig(**({"learning_rate": 1e-3, "max_grad_norm": UNCLIPPED, "updates_per_step": 1} | settings)),
        temperature,
    )


def update(learner: Learner, examples: Sequence[TrainingExample], seed: int = 0) -> dict[str, float]:
    return learner.update(examples, np.random.default_rng(seed))


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def assert_close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float) -> None:
    assert left.keys() == right.keys()
    largest = max(float(tensor.abs().max()) for tensor in left.values())
    assert largest > 1e-3, "a comparison of zeros proves nothing"
    for name in left:
        difference = float((left[name] - right[name]).abs().max())
        assert difference <= tolerance * largest, f"{name}: {difference}"


def token_logprobs(model, example: TrainingExample, temperature: float = TEMPERATURE) -> torch.Tensor:
    """Of the response's tokens, by one pass over this rollout alone, without padding; (T,)."""
    prompt, tokens = example.rollout.prompt_ids, example.rollout.completion.token_ids.tolist()
    logits = model(input_ids=torch.tensor([[*prompt, *tokens]]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, dim=-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


def reference_gradients(model: LlamaForCausalLM, examples: Sequence[TrainingExample]) -> dict[str, torch.Tensor]:
    """-sum of A * grad log-probability over the number of tokens: the policy gradient where the ratio is 1."""
    model = copy.deepcopy(model).double()
    token_count = sum(len(example.rollout.completion.token_ids) for example in examples)
    for example in examples:
        (-example.advantage * token_logprobs(model, example).sum() / token_count).backward()
    return {name: gradient.float() for name, gradient in gradients(model).items()}


def test_the_gradient_is_the_policy_gradient_of_each_rollout_alone(make_policy):
    # The reference sees no padding and no other rollout, and prompts only as context: neither adds anything.
    model = make_policy().model
    examples = sampled_examples(model)
    expected = reference_gradients(model, examples)
    update(make_learner(model), examples)
    assert_close(expected, gradients(model), 1e-4)


@pytest.mark.parametrize("micro_batch_tokens", [1, 40, 100])
def test_the_gradient_does_not_depend_on_the_micro_batches(make_policy, micro_batch_tokens):
    whole, parted = make_policy().model, make_policy().model
    examples = sampled_examples(whole)
    one = update(make_learner(whole, micro_batch_tokens=10**6), examples)
    many = update(make_learner(parted, micro_batch_tokens=micro_batch_tokens), examples)
    assert_close(gradients(whole), gradients(parted), 1e-5)
    assert one == pytest.approx(many, rel=1e-4, abs=1e-6)


def test_the_gradient_does_not_depend_on_the_order_of_the_rollouts_or_who_shares_a_micro_batch(make_policy):
    straight, shuffled = make_policy().model, make_policy().model
    examples = sampled_examples(straight)
    order = np.random.default_rng(1).permutation(len(examples))
    update(make_learner(straight, micro_batch_tokens=60), examples)
    update(make_learner(shuffled, micro_batch_tokens=90), [examples[i] for i in order])
    assert_close(gradients(straight), gradients(shuffled), 1e-5)


def test_one_weights_gradient_is_the_slope_of_the_loss(make_policy):
    model = make_policy().model
    examples = sampled_examples(model)[:4]
    exact = copy.deepcopy(model).double()
    weight = exact.model.layers[0].mlp.gate_proj.weight
    with torch.no_grad():
        old = [token_logprobs(exact, example) for example in examples]

    def loss() -> float:
        """The clipped objective's value for ratios near 1, where no bound is active."""
        total, count = 0.0, 0
        for example, before in zip(examples, old, strict=True):
            with torch.no_grad():
                ratio = torch.exp(token_logprobs(exact, example) - before)
            total -= float((ratio * example.advantage).sum())
            count += len(before)
        return total / count

    update(make_learner(model), examples)
    gradient = model.model.layers[0].mlp.gate_proj.weight.grad
    row, column = divmod(int(gradient.abs().argmax()), gradient.shape[1])
    original, step = weight[row, column].item(), 1e-2  # the norms compute in float32: a smaller step drowns in it
    values = []
    for shift in (step, -step):
        with torch.no_grad():
            weight[row, column] = original + shift
        values.append(loss())
    slope = (values[0] - values[1]) / (2 * step)
    assert abs(slope) > 1e-3
    assert float(gradient[row, column]) == pytest.approx(slope, rel=1e-3)


def test_whatever_id_stands_for_padding_changes_nothing(make_policy, monkeypatch):
    results = []
    for pad in (0, 1, 11, 131):
        monkeypatch.setattr(learner_module, "_PAD", pad)
        model = make_policy().model
        update(make_learner(model, micro_batch_tokens=10**6), sampled_examples(model))
        results.append(gradients(model))
    for other in results[1:]:
        assert_close(results[0], other, 1e-6)


def test_a_sampled_token_that_is_the_pad_id_is_trained_on(make_policy, tokenizer):
    # The masks come from lengths: pads and end tokens that were sampled, or stand in a prompt, are tokens like others.
    model = make_policy().model
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    examples = [
        make_example((pad, 11, pad), (pad, 40, pad, pad), 1.0),
        make_example((5,), (7, end, end), -0.5),
        make_example((5, 6, 7, 8, 9, 10), (41, 42, 43, 44, 45, pad), 0.7),
    ]
    expected = reference_gradients(model, examples)
    update(make_learner(model, micro_batch_tokens=10**6), examples)
    assert_close(expected, gradients(model), 1e-4)


def test_the_loss_is_the_mean_over_all_tokens_of_the_batch_not_over_rollouts(make_policy):
    # All weights are 0: every token has log-probability -ln 132, whatever the temperature.
    # Advantage 1 on 2 tokens and -1 on 3 tokens: loss = -(2 * 1 - 3 * 1) / 5 = 0.2
    # (a mean over rollouts would give -(1 - 1) / 2 = 0).
    # The engine claims -ln 132 - ln 2 for each token of the first and the truth for the second:
    # k3 = exp(ln 2) - 1 - ln 2 = 0.306853 on 2 of 5 tokens: 0.122741.
    model = make_policy(sharpness=0.0).model
    uniform = -np.log(132)
    examples = [
        make_example((11, 12), (3, 4), 1.0, prompt=0, behavior=[uniform - np.log(2)] * 2),
        make_example((13,), (5, 6, 7), -1.0, prompt=1, behavior=[uniform] * 3),
    ]
    metrics = update(make_learner(model), examples)
    assert metrics["loss"] == pytest.approx(0.2, abs=1e-6)
    assert metrics["entropy"] == pytest.approx(np.log(132), abs=1e-5)
    assert metrics["kl_behavior"] == pytest.approx(0.122741, abs=1e-5)
    assert metrics["clip_fraction"] == 0.0
    assert (metrics["updates"], metrics["skipped_updates"], metrics["lr"]) == (1.0, 0.0, 1e-3)


def test_entropy_is_that_of_the_distribution_under_the_temperature(make_policy):
    model = make_policy().model
    example = make_example((11, 12), (3, 4, 5), 1.0)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[11, 12, 3, 4, 5]])).logits[0, 1:4].double()
    chances = torch.softmax(logits / TEMPERATURE, dim=-1)
    expected = float(-(chances * chances.log()).sum(dim=-1).mean())
    assert expected < 0.95 * np.log(132)
    assert update(make_learner(model), [example])["entropy"] == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_scaled_down_to_its_largest_norm(make_policy):
    free, bound = make_policy().model, make_policy().model
    examples = sampled_examples(free)
    norm = update(make_learner(free), examples)["grad_norm"]
    assert update(make_learner(bound, max_grad_norm=norm / 4), examples)["grad_norm"] == pytest.approx(norm, rel=1e-5)
    quarter = {name: gradient / 4 for name, gradient in gradients(free).items()}
    assert_close(quarter, gradients(bound), 1e-4)
    assert norm == pytest.approx(float(sum((g**2).sum() for g in gradients(free).values()) ** 0.5), rel=1e-5)


def test_a_step_without_an_advantage_leaves_everything_bit_identical_and_is_counted(make_policy):
    model = make_policy().model
    learner = make_learner(model, weight_decay=0.1, warmup_steps=5)
    examples = sampled_examples(model)
    update(learner, examples)  # momentum that a step with a gradient of zero would move the weights by
    weights = copy.deepcopy(model.state_dict())
    state = copy.deepcopy(learner.state_dict())
    saturated = [TrainingExample(example.rollout, 0.0) for example in examples]
    for batch in (saturated, []):
        metrics = update(learner, batch)
        assert (metrics["updates"], metrics["skipped_updates"]) == (0.0, 1.0)
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())
    assert learner.state_dict()["schedule"] == state["schedule"]


def test_a_part_without_an_advantage_is_skipped_like_a_whole_step(make_policy):
    # Two updates, two groups, one of them saturated: its share of the step must not move the weights.
    alone, parted = make_policy().model, make_policy().model
    mixed = [make_example((11, 3), (40, 41), 1.0, 0), make_example((11, 3), (42, 43, 44), -1.0, 0)]
    saturated = [make_example((5,), (50, 51), 0.0, 1), make_example((5,), (52,), 0.0, 1)]
    settings = {"weight_decay": 0.1}
    update(make_learner(alone, **settings), mixed)
    metrics = update(make_learner(parted, updates_per_step=2, **settings), [*saturated, *mixed])
    assert (metrics["updates"], metrics["skipped_updates"]) == (1.0, 1.0)
    for left, right in zip(alone.parameters(), parted.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-5)


def test_saturated_rollouts_in_a_batch_count_as_tokens_of_its_mean(make_policy):
    # Loss -(1 * 2 + 0 * 2) / 4 = -0.5: the group that teaches nothing still dilutes the mean (the uniform baseline).
    model = make_policy(sharpness=0.0).model
    examples = [make_example((11,), (3, 4), 1.0, 0), make_example((12,), (5, 6), 0.0, 1)]
    assert update(make_learner(model), examples)["loss"] == pytest.approx(-0.5, abs=1e-6)


def test_a_rewarded_rollout_becomes_likelier_and_a_punished_one_less_likely(make_policy):
    model = make_policy().model
    examples = [make_example((11, 3), (40, 41, 42), 1.0), make_example((11, 3), (50, 51), -1.0)]
    with torch.no_grad():
        before = [float(token_logprobs(model, example).sum()) for example in examples]
    update(make_learner(model), examples)
    with torch.no_grad():
        after = [float(token_logprobs(model, example).sum()) for example in examples]
    assert after[0] > before[0] + 0.01 and after[1] < before[1] - 0.01


def test_one_update_of_a_batch_has_ratio_one_everywhere(make_policy):
    model = make_policy().model
    examples = sampled_examples(model)
    metrics = update(make_learner(model), examples)
    lengths = np.array([len(example.rollout.completion.token_ids) for example in examples])
    advantages = np.array([example.advantage for example in examples])
    assert metrics["loss"] == pytest.approx(-float(lengths @ advantages) / lengths.sum(), abs=1e-6)
    assert metrics["clip_fraction"] == 0.0


def test_later_updates_of_a_batch_keep_the_logprobs_of_before_the_first(make_policy):
    model = make_policy().model
    groups = [
        [make_example((11, 3), (40, 41, 42), 1.0, prompt) for prompt in [0]],
        [make_example((11, 3), (40, 41, 43), 1.0, prompt) for prompt in [1]],  # learns from what the other teaches
    ]
    examples = [*groups[0], *groups[1]]
    with torch.no_grad():
        old = [token_logprobs(model, example) for example in examples]
    expected = []
    for first, second in ((0, 1), (1, 0)):  # whichever group is dealt first
        trained = copy.deepcopy(model)
        update(make_learner(trained, learning_rate=1e-2), groups[first])
        with torch.no_grad():
            ratio = torch.exp(token_logprobs(trained, examples[second]) - old[second])
        assert float((ratio - 1).abs().max()) > 0.3
        expected.append((-1.0 - float(ratio.clamp(max=1.28).mean())) / 2)  # the first loss is -1, its ratio 1
    metrics = update(make_learner(model, updates_per_step=2, learning_rate=1e-2), examples)
    assert metrics["updates"] == 2.0 and metrics["clip_fraction"] > 0.0
    assert min(abs(metrics["loss"] - loss) for loss in expected) < 1e-4
    assert metrics["loss"] < -1.01


def test_a_state_that_is_saved_and_loaded_goes_on_bit_for_bit(make_policy):
    model = make_policy().model
    settings = {"updates_per_step": 2, "warmup_steps": 3, "weight_decay": 0.1}
    learner, examples = make_learner(model, **settings), sampled_examples(model)
    update(learner, examples, seed=1)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "learner": learner.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = make_policy(seed=1).model
    other.load_state_dict(saved["model"])
    resumed = make_learner(other, **settings)
    resumed.load_state_dict(saved["learner"])
    for seed in (2, 3):
        assert update(learner, examples, seed) == update(resumed, examples, seed)
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_the_learning_rate_warms_up_and_is_reported_as_it_was_used(make_policy):
    # warmup_steps = 3: factors 1/4, 2/4, 3/4, then 1.
    model = make_policy().model
    learner = make_learner(model, warmup_steps=3, learning_rate=0.008)
    examples = [make_example((11, 3), (40, 41), 1.0)]
    rates = [update(learner, examples)["lr"] for _ in range(5)]
    assert rates == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.008])
    fresh = make_policy().model
    before = copy.deepcopy(fresh.state_dict())
    update(make_learner(fresh, warmup_steps=3, learning_rate=0.008), examples)
    # Adam's first step moves a weight by the learning rate times the sign of its gradient.
    moved = max(float((weight - before[name]).abs().max()) for name, weight in fresh.state_dict().items())
    assert moved == pytest.approx(0.002, rel=1e-3)


@pytest.mark.parametrize("temperature", [0.8, 1.3])
def test_engine_and_learner_agree_on_the_logprobs_while_they_share_weights(make_policy, temperature):
    model = make_policy().model
    prompts = np.arange(len(PROMPTS))
    seeds = rollout_seeds(0, 2, prompts, 0).tolist()
    requests = [Request(PROMPTS[prompt], seed) for prompt, seed in zip(prompts, seeds, strict=True)]
    completions = HuggingFaceEngine(model, range(120, 132), 3).generate(requests, Sampling(temperature, 100))
    examples = [
        TrainingExample(Rollout(int(p), 0, PROMPTS[p], completion, "", 1), 1.0)
        for p, completion in zip(prompts, completions, strict=True)
    ]
    assert abs(update(make_learner(model, temperature), examples)["kl_behavior"]) < 1e-5
    # Now the learner has moved on: the same rollouts are off its policy.
    assert update(make_learner(model, temperature), examples)["kl_behavior"] > 1e-4


def test_dropout_is_off_while_training():
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)).train()
    requests = [Request((3, 4, 5), seed) for seed in range(4)]
    completions = HuggingFaceEngine(model, [], 512).generate(requests, Sampling(1.0, 10))
    examples = [TrainingExample(Rollout(0, i, (3, 4, 5), c, "", 1), 1.0) for i, c in enumerate(completions)]
    assert abs(update(make_learner(model.train(), 1.0), examples)["kl_behavior"]) < 1e-5


def test_an_update_that_is_not_finite_leaves_everything_as_it_was_and_names_its_prompts(make_policy):
    model = make_policy().model
    learner = make_learner(model, weight_decay=0.1, warmup_steps=3)
    update(learner, [make_example((11, 3), (40, 41), 1.0)])  # momentum, which a step would move the weights by
    before, state = copy.deepcopy(model.state_dict()), copy.deepcopy(learner.state_dict())
    with pytest.warns(UserWarning, match="an update over prompts 7, 8 was left out"):
        metrics = update(
            learner, [make_example((11, 3), (40, 41), float("nan"), 7), make_example((11, 3), (40,), 1.0, 8)]
        )
    assert (metrics["updates"], metrics["bad_updates"], metrics["skipped_updates"]) == (0.0, 1.0, 0.0)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    after = learner.state_dict()
    assert after["schedule"] == state["schedule"]
    for old, new in zip(state["optimizer"]["state"].values(), after["optimizer"]["state"].values(), strict=True):
        assert all(torch.equal(old[name], new[name]) for name in old)


def test_the_other_update_of_a_step_goes_on(make_policy):
    model = make_policy().model
    examples = [make_example((11, 3), (40, 41), advantage, i) for i, advantage in enumerate((float("inf"), 1.0))]
    with pytest.warns(UserWarning):
        metrics = update(make_learner(model, updates_per_step=2), examples)
    assert (metrics["updates"], metrics["bad_updates"]) == (1.0, 1.0)
    assert np.isfinite(list(metrics.values())).all()
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_bad_updates_in_a_row_end_the_run_and_a_good_one_starts_the_count_anew(make_policy):
    model = make_policy().model
    learner = make_learner(model, max_bad_updates=2)
    bad, good = [make_example((11, 3), (40, 41), float("nan"), 5)], [make_example((11, 3), (40, 41), 1.0)]
    with pytest.warns(UserWarning):
        update(learner, bad)
    update(learner, good)
    with pytest.warns(UserWarning):
        update(learner, bad)
    weights = copy.deepcopy(model.state_dict())
    with pytest.raises(TrainingDiverged, match=r"prompts 5 .*2 in a row \(learner.max_bad_updates\)") as caught:
        update(learner, bad)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())
