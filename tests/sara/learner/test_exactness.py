"""The learner's gradient in float64 against a slow one: each rollout alone, no padding, formulas as in the papers."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from sara.learner import TrainingExample
from sara.learner.forward import TokenScorer, decode
from sara.learner.micro_batches import MicroBatch, as_rows, end_to_end
from sara.losses import AGGREGATIONS

TEMPERATURE = 0.8
LONGEST = 12


def update(learner, examples, seed=0):
    return learner.update(examples, np.random.default_rng(seed))


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float = 1e-10) -> None:
    assert left.keys() == right.keys()
    largest = max(float(tensor.abs().max()) for tensor in left.values())
    assert largest > 1e-4, "a comparison of zeros proves nothing"
    for name in left:
        assert float((left[name] - right[name]).abs().max()) <= tolerance * max(1.0, largest), name


def distributions(model, example: TrainingExample, temperature: float = TEMPERATURE) -> torch.Tensor:
    """(T, V) log-probabilities of all words at each response token, by one pass over this rollout alone."""
    prompt, tokens = example.rollout.prompt_ids, example.rollout.completion.token_ids.tolist()
    logits = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, dim=-1)


def slow_loss(model, examples, aggregation, equal_groups=False, kl=None, entropy_coef=0.0, tis_cap=None):
    """The loss at ratio 1, rollout by rollout and token by token; `kl` is (coefficient, estimator, reference model)."""
    by_rollout: list[tuple[int, list[torch.Tensor]]] = []
    for example in examples:
        tokens = example.rollout.completion.token_ids.tolist()
        policy = distributions(model, example)
        reference = distributions(kl[2], example).detach() if kl else None
        losses = []
        for t, token in enumerate(tokens):
            if example.loss_mask is not None and not example.loss_mask[t]:
                continue
            logprob = policy[t, token]
            weight = 1.0
            if tis_cap is not None:
                weight = min(math.exp(logprob.item() - float(example.rollout.completion.behavior_logprobs[t])), tis_cap)
            loss = -weight * torch.exp(logprob - logprob.detach()) * example.advantage
            if kl:
                d = reference[t, token] - logprob
                loss = loss + kl[0] * {"k1": -d, "k2": d**2 / 2, "k3": torch.exp(d) - 1 - d}[kl[1]]
            loss = loss + entropy_coef * (policy[t].exp() * policy[t]).sum()
            losses.append(loss)
        if losses:
            by_rollout.append((example.rollout.prompt, losses))

    def mean(rows, name):
        flat = [x for row in rows for x in row]
        if name == "sequence":
            return sum(sum(row) / len(row) for row in rows) / len(rows)
        return sum(flat) / (LONGEST * len(rows) if name == "constant" else len(flat))

    groups: dict[int, list] = {}
    for prompt, losses in by_rollout:
        groups.setdefault(prompt, []).append(losses)
    if equal_groups or aggregation == "group":
        name = "token" if aggregation == "group" else aggregation
        return sum(mean(rows, name) for rows in groups.values()) / len(groups)
    return mean([losses for _, losses in by_rollout], aggregation)


def slow_gradients(model, examples, *args, **kwargs) -> dict[str, torch.Tensor]:
    model = copy.deepcopy(model)
    slow_loss(model, examples, *args, **kwargs).backward()
    return gradients(model)


@pytest.mark.parametrize("share_prompts", [False, True])
@pytest.mark.parametrize("equal_groups", [False, True])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_every_aggregation_has_the_gradient_of_its_formula(
    make_exact, make_exact_learner, random_examples, aggregation, equal_groups, share_prompts
):
    model, examples = make_exact(), random_examples()
    expected = slow_gradients(model, examples, aggregation, equal_groups)
    settings = {"aggregation": aggregation, "equal_groups": equal_groups, "share_prompts": share_prompts}
    update(make_exact_learner(model, **settings), examples)
    assert_same(expected, gradients(model))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_in_the_loss_entropy_and_importance_have_the_gradient_of_their_formulas(
    make_exact, make_exact_learner, random_examples, estimator
):
    model, reference = make_exact(), make_exact(seed=1)

    def logprobs_of(example):
        picked = distributions(reference, example).gather(
            1, torch.tensor(example.rollout.completion.token_ids)[:, None]
        )
        return picked[:, 0].detach().numpy()

    examples = [TrainingExample(e.rollout, e.advantage, reference_logprobs=logprobs_of(e)) for e in random_examples()]
    expected = slow_gradients(model, examples, "token", False, (0.3, estimator, reference), 0.05, 1.5)
    settings = {"kl_coef": 0.3, "kl_estimator": estimator, "entropy_coef": 0.05, "tis_cap": 1.5}
    learner = make_exact_learner(model, reference, corrects_gap=True, **settings)
    measured = learner.measure(examples)["reference_logprobs"]
    for found, example in zip(measured, examples, strict=True):
        np.testing.assert_allclose(found, example.reference_logprobs, atol=1e-10)
    metrics = update(learner, examples)
    assert_same(expected, gradients(model))
    assert 0 < metrics["tis/truncated"] < 1


def test_the_parts_of_the_loss_are_reported_as_they_stand_in_it(make_exact, make_exact_learner, random_examples):
    model, reference, bare = make_exact(), make_exact(seed=1), random_examples()
    learner = make_exact_learner(model, reference, kl_coef=0.3, kl_estimator="k2", entropy_coef=0.05)
    known = learner.measure(bare)["reference_logprobs"]
    examples = [TrainingExample(e.rollout, e.advantage, reference_logprobs=k) for e, k in zip(bare, known, strict=True)]
    policy = float(slow_loss(model, examples, "token").detach())
    with_kl = float(slow_loss(model, examples, "token", kl=(0.3, "k2", reference)).detach())
    with_entropy = float(slow_loss(model, examples, "token", entropy_coef=0.05).detach())
    metrics = update(learner, examples)
    assert metrics["loss"] == pytest.approx(policy, abs=1e-10)
    assert metrics["loss/kl"] == pytest.approx(with_kl - policy, abs=1e-10) and metrics["loss/kl"] > 0.01
    assert metrics["loss/entropy"] == pytest.approx(with_entropy - policy, abs=1e-10) and metrics["loss/entropy"] < 0


def test_each_bound_is_counted_over_the_computed_tokens(make_exact, make_exact_learner, random_examples):
    model, examples = make_exact(), random_examples()
    start, once = copy.deepcopy(model), copy.deepcopy(model)
    settings = {"learning_rate": 0.02, "clip_low": 0.1, "clip_high": 0.2, "dual_clip": 1.5}
    update(make_exact_learner(once, **settings), examples)
    metrics = update(make_exact_learner(model, epochs=2, **settings), examples)
    counts, tokens = {"clip/low": 0, "clip/high": 0, "clip/dual": 0}, 0
    for example in examples:
        chosen = torch.tensor(example.rollout.completion.token_ids)[:, None]
        with torch.no_grad():
            ratios = torch.exp((distributions(once, example) - distributions(start, example)).gather(1, chosen))
        for ratio in ratios.flatten().tolist():
            tokens += 1
            counts["clip/high"] += example.advantage > 0 and ratio > 1.2
            counts["clip/low"] += example.advantage < 0 and ratio < 0.9
            counts["clip/dual"] += example.advantage < 0 and ratio > 1.5
    assert min(counts.values()) > 0
    for name, count in counts.items():  # the mean of two updates, in the first of which every ratio is 1
        assert metrics[name] == pytest.approx(count / tokens / 2, abs=1e-12)
    assert metrics["clip_fraction"] == pytest.approx(sum(counts.values()) / tokens / 2, abs=1e-12)


def test_the_gradient_is_the_slope_of_the_slow_loss_by_finite_differences(
    make_exact, make_exact_learner, random_examples
):
    """Of the true loss, whose ratio is not held at 1: the old log-probabilities stay while the weights move."""
    model, examples = make_exact(), random_examples(4)
    moved = copy.deepcopy(model)
    old = [distributions(model, example).detach() for example in examples]
    update(make_exact_learner(model), examples)
    weight = moved.transformer.h[0].mlp.c_fc.weight
    gradient = model.transformer.h[0].mlp.c_fc.weight.grad
    place = divmod(int(gradient.abs().argmax()), gradient.shape[1])

    @torch.no_grad()
    def loss() -> float:
        total, count = 0.0, 0
        for example, before in zip(examples, old, strict=True):
            tokens = torch.tensor(example.rollout.completion.token_ids)[:, None]
            ratio = torch.exp((distributions(moved, example) - before).gather(1, tokens))
            total, count = total - float(ratio.sum()) * example.advantage, count + len(tokens)
        return total / count

    values = []
    for shift in (1e-5, -2e-5):
        with torch.no_grad():
            weight[place] += shift
        values.append(loss())
    assert abs(gradient[place]) > 1e-3
    assert float(gradient[place]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("change", ["micro_batches", "order", "packed", "recomputed", "pieces", "shared"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_gradient_does_not_depend_on_how_it_is_computed(
    make_exact, make_exact_learner, random_examples, aggregation, change, monkeypatch
):
    settings = {"aggregation": aggregation, "entropy_coef": 0.01, "share_prompts": False}
    whole, other, examples = make_exact(), make_exact(), random_examples()
    one = update(make_exact_learner(whole, **settings), examples)
    if change == "order":
        examples = [examples[i] for i in np.random.default_rng(3).permutation(len(examples))]
    changes = {
        "micro_batches": {"micro_batch_tokens": 20},
        "packed": {"layout": "packed", "micro_batch_tokens": 50},
        "recomputed": {"gradient_checkpointing": True},
        "shared": {"share_prompts": True, "micro_batch_tokens": 30},
    }
    learner = make_exact_learner(other, **settings | changes.get(change, {}))
    if change == "pieces":
        learner.scorer.piece_bytes = 5 * 8 * 23
    two = update(learner, examples)
    assert_same(gradients(whole), gradients(other))
    assert one == pytest.approx(two, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("amount", [0, 5])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_gradient_does_not_depend_on_the_side_or_the_amount_of_padding(make_exact, random_examples, side, amount):
    model, examples = make_exact(), random_examples(5)
    coefficients = torch.linspace(-1, 2, sum(e.trained_tokens for e in examples), dtype=torch.float64)
    expected = None
    for batch in (as_rows(examples, "cpu"), _padded(examples, side, amount), end_to_end(examples, "cpu")):
        model.zero_grad()
        (coefficients * TokenScorer(model, TEMPERATURE, 2**20)(batch).logprobs).sum().backward()
        expected = expected or gradients(model)
        assert_same(expected, gradients(model))


def _padded(examples, side: str, amount: int, pad: int = 9) -> MicroBatch:
    """Rows as another trainer might pad them, with mask and positions."""
    sequences = [[*e.rollout.prompt_ids, *e.rollout.completion.token_ids.tolist()] for e in examples]
    length = max(map(len, sequences)) + amount
    starts = [length - len(s) if side == "left" else 0 for s in sequences]
    ids, mask = torch.full((len(examples), length), pad), torch.zeros(len(examples), length, dtype=torch.int64)
    for row, (start, sequence) in enumerate(zip(starts, sequences, strict=True)):
        ids[row, start : start + len(sequence)] = torch.tensor(sequence)
        mask[row, start : start + len(sequence)] = 1
    places = [
        torch.arange(e.response_tokens) + row * length + start + len(e.rollout.prompt_ids)
        for row, (start, e) in enumerate(zip(starts, examples, strict=True))
    ]
    trained = torch.cat(places)
    return MicroBatch(ids, (mask.cumsum(1) - 1).clamp(min=0), mask, trained - 1, ids.flatten()[trained])


def test_masked_tokens_have_exactly_no_gradient_and_count_in_no_mean(make_exact, make_exact_learner, random_examples):
    """Masks with holes: only the trained tokens are terms of the loss, the others are context."""
    rng = np.random.default_rng(5)
    model = make_exact()
    examples = [
        TrainingExample(e.rollout, e.advantage, loss_mask=rng.random(e.response_tokens) < 0.6)
        for e in random_examples()
    ]
    assert any(0 < e.trained_tokens < e.response_tokens for e in examples)
    expected = slow_gradients(model, examples, "token")
    metrics = update(make_exact_learner(model), examples)
    assert_same(expected, gradients(model))
    assert metrics["tokens/updated"] == sum(e.trained_tokens for e in examples)


def test_a_masked_last_token_reaches_nothing(make_exact, make_exact_learner, make_rollout):
    """Its word appears nowhere else, so a gradient of its embedding could only come from it."""
    model = make_exact(tie_word_embeddings=False)
    mask = np.array([True, True, False])
    update(make_exact_learner(model), [TrainingExample(make_rollout((2, 3), (4, 5, 17)), 1.0, loss_mask=mask)])
    assert not model.transformer.wte.weight.grad[17].any()
    assert model.transformer.wte.weight.grad[4].any() and model.lm_head.weight.grad[5].any()


def test_rollouts_that_are_masked_altogether_change_nothing_and_give_zero_not_nan(
    make_exact, make_exact_learner, random_examples
):
    whole, parted = make_exact(), make_exact()
    examples = random_examples()
    masked = [
        TrainingExample(e.rollout, 5.0, loss_mask=np.zeros(e.response_tokens, bool)) for e in random_examples(3, 7)
    ]
    update(make_exact_learner(whole), examples)
    metrics = update(make_exact_learner(parted), [*masked, *examples])
    assert_same(gradients(whole), gradients(parted))
    assert np.isfinite(list(metrics.values())).all()
    before = copy.deepcopy(parted.state_dict())
    alone = update(make_exact_learner(parted), masked)
    assert (alone["updates"], alone["skipped_updates"]) == (0.0, 1.0)
    assert all(torch.equal(before[name], weight) for name, weight in parted.state_dict().items())


def test_the_end_token_is_trained_where_it_was_sampled_and_a_cut_response_has_none(
    make_exact, make_exact_learner, make_rollout
):
    # Ids 1 and 9 both end a response; 1 is the padding id of this model too. The first ends by 1, the second by 9,
    # the third was cut: its last term is its last token, and no end is learned from it.
    model = make_exact()
    examples = [
        TrainingExample(make_rollout((2, 3), (4, 5, 1)), 1.0),
        TrainingExample(make_rollout((2, 3), (6, 9)), 1.0),
        TrainingExample(make_rollout((2, 3), (7, 8, 10), reason="length"), 1.0),
    ]
    expected = slow_gradients(model, examples, "token")
    metrics = update(make_exact_learner(model), examples)
    assert_same(expected, gradients(model))
    assert metrics["tokens/updated"] == 8
    # By the slope of the log-probabilities: a sampled end becomes likelier, an end that was not sampled does not.
    trained = make_exact()
    before = [distributions(trained, e).detach() for e in examples]
    update(make_exact_learner(trained, learning_rate=1e-4), examples)
    after = [distributions(trained, e).detach() for e in examples]
    assert after[0][2, 1] > before[0][2, 1] and after[1][1, 9] > before[1][1, 9]


def test_temperature_stands_on_both_sides_of_the_ratio(make_exact, make_exact_learner, random_examples):
    """Old and new log-probabilities are of one distribution: with weights unmoved every ratio is 1, at any
    temperature, in every update."""
    model, examples = make_exact(), random_examples()
    metrics = update(make_exact_learner(model, updates_per_step=3, learning_rate=1e-300), examples)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-12)
    moved = update(make_exact_learner(model, epochs=2, learning_rate=1e-3), examples)
    assert moved["ratio_max"] > 1.001


def test_every_epoch_after_the_first_is_measured_against_the_weights_of_before_the_step(
    make_exact, make_exact_learner, random_examples
):
    model, examples = make_exact(), random_examples()
    start = copy.deepcopy(model)
    once = copy.deepcopy(model)
    update(make_exact_learner(once), examples)
    metrics = update(make_exact_learner(model, epochs=2), examples)
    ratios = []
    for example in examples:
        tokens = torch.tensor(example.rollout.completion.token_ids)[:, None]
        with torch.no_grad():
            ratios.append(torch.exp((distributions(once, example) - distributions(start, example)).gather(1, tokens)))
    assert metrics["ratio_max"] == pytest.approx(float(torch.cat(ratios).max()), rel=1e-9)
    assert metrics["updates"] == 2


def test_the_gap_between_engine_and_learner_is_measured_token_by_token(make_exact, make_exact_learner, random_examples):
    model, examples = make_exact(), random_examples()
    gaps = []
    for example in examples:
        tokens = torch.tensor(example.rollout.completion.token_ids)[:, None]
        logprobs = distributions(model, example).gather(1, tokens)[:, 0].detach().numpy()
        gaps.append(logprobs - example.rollout.completion.behavior_logprobs)
    gap = np.concatenate(gaps)
    metrics = update(make_exact_learner(model), examples)
    assert metrics["mismatch/abs_mean"] == pytest.approx(np.abs(gap).mean(), rel=1e-9)
    assert metrics["mismatch/ratio_max"] == pytest.approx(np.exp(np.abs(gap).max()), rel=1e-9)
    assert metrics["kl_behavior"] == pytest.approx((np.exp(gap) - 1 - gap).mean(), rel=1e-9)
    assert "tis/truncated" not in metrics


def test_decoded_states_are_those_before_the_trained_tokens(make_exact, random_examples):
    model, examples = make_exact(), random_examples(3)
    states = decode(model, as_rows(examples, "cpu"))
    expected = []
    for example in examples:
        prompt, tokens = example.rollout.prompt_ids, example.rollout.completion.token_ids.tolist()
        ids = torch.tensor([[*prompt, *tokens]])
        expected.append(model.transformer(input_ids=ids).last_hidden_state[0, len(prompt) - 1 : -1])
    torch.testing.assert_close(states, torch.cat(expected), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("micro_batch_tokens", [4, 1000])
def test_uneven_micro_batches_under_the_token_mean(make_exact, make_exact_learner, make_rollout, micro_batch_tokens):
    # Advantages +1 on 1 token and -1 on 3, in one micro-batch or in two: loss (-1 * 1 + 1 * 3) / 4 = 0.5.
    # (A mean of the means of two micro-batches would be (-1 + 1) / 2 = 0.)
    model = make_exact()
    examples = [TrainingExample(make_rollout((2,), (4,)), 1.0), TrainingExample(make_rollout((2,), (5, 6, 7)), -1.0)]
    expected = slow_gradients(model, examples, "token")
    metrics = update(make_exact_learner(model, micro_batch_tokens=micro_batch_tokens), examples)
    assert metrics["loss"] == pytest.approx(0.5, abs=1e-12)
    assert_same(expected, gradients(model))
