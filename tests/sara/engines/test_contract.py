"""The contract of an engine, held by every member of the family (the fixtures are in conftest)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sara.engines.base import Completion, Engine, Request, Sampling


def run_out(engine: Engine) -> dict:
    ended = {}
    while engine.num_in_flight:
        ended |= dict(engine.advance())
    return ended


def assert_same(left: Completion, right: Completion) -> None:
    assert left.token_ids.tolist() == right.token_ids.tolist()
    np.testing.assert_allclose(left.behavior_logprobs, right.behavior_logprobs, atol=1e-4)
    assert left.finish_reason == right.finish_reason


def lengths(completions) -> list[int]:
    return [len(completion.token_ids) for completion in completions]


def test_greedy_decoding_gives_the_tokens_of_transformers(engine, contract_policy, requests):
    asked = requests(1)
    completions = engine.generate(asked, Sampling(0.0, 30))
    for request, completion in zip(asked, completions, strict=True):
        ids = torch.tensor([request.prompt_ids])
        expected = contract_policy.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=30,
            eos_token_id=list(contract_policy.end_token_ids),
        )
        assert completion.token_ids.tolist() == expected[0, len(request.prompt_ids) :].tolist()
        assert not completion.behavior_logprobs.any()  # nothing else could have been sampled
    assert max(lengths(completions)) > 10


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_behavior_logprobs_are_those_of_a_plain_forward_pass_under_the_temperature(
    engine, contract_policy, requests, plain_logprobs, temperature
):
    asked = requests()
    completions = engine.generate(asked, Sampling(temperature, 100))
    assert max(lengths(completions)) > 15
    for request, completion in zip(asked, completions, strict=True):
        expected = plain_logprobs(contract_policy.model, request, completion, temperature)
        np.testing.assert_allclose(completion.behavior_logprobs, expected, atol=1e-4)
        assert completion.behavior_logprobs.dtype == np.float32 and completion.token_ids.dtype == np.int64


def test_a_seed_decides_a_completion_whatever_the_order_and_the_company(engine, requests):
    asked, sampling = requests(), Sampling(1.0, 24)
    together = engine.generate(asked, sampling)
    assert len({tuple(completion.token_ids.tolist()) for completion in together}) > 15
    order = np.random.default_rng(0).permutation(len(asked))
    shuffled = engine.generate([asked[i] for i in order], sampling)
    for place, i in enumerate(order):
        assert_same(shuffled[place], together[i])
    for i in (0, 9, 19):
        assert_same(engine.generate([asked[i]], sampling)[0], together[i])


def test_equal_requests_have_equal_completions_and_other_seeds_other_ones(engine, requests):
    first, second = requests(2)[:2]
    one, same, other = engine.generate([first, first, second], Sampling(1.0, 24))
    assert_same(one, same)
    assert one.token_ids.tolist() != other.token_ids.tolist()
    assert len(engine.generate([Request(first.prompt_ids, 2**64 - 1)], Sampling(1.0, 24))) == 1


def test_more_requests_than_places_are_all_served_in_order(engine, requests):
    asked, sampling = requests(40), Sampling(1.0, 12)
    completions = engine.generate(asked, sampling)
    assert len(completions) == 200
    for i in (0, 100, 199):
        assert_same(completions[i], engine.generate([asked[i]], sampling)[0])


def test_a_completion_stops_with_its_first_end_token_or_is_cut_without_one(engine, contract_policy, requests):
    completions = engine.generate(requests(20), Sampling(1.0, 6))
    reasons = [completion.finish_reason for completion in completions]
    assert reasons.count("stop") > 20 and reasons.count("length") > 5
    stopped_at_the_limit = 0
    for completion in completions:
        ends = [token in contract_policy.end_token_ids for token in completion.token_ids.tolist()]
        assert not any(ends[:-1]) and len(completion.behavior_logprobs) == len(ends)
        if completion.finish_reason == "stop":
            assert ends[-1]
            stopped_at_the_limit += len(ends) == 6
        else:
            assert not ends[-1] and len(ends) == 6
    assert stopped_at_the_limit > 0


def test_a_stream_gives_the_completions_of_a_batch(engine, requests):
    asked, sampling = requests(), Sampling(1.0, 24)
    batch = engine.generate(asked, sampling)
    assert len(set(lengths(batch))) > 4
    tickets = engine.submit(asked[:3], sampling)
    ended = {}
    for request in asked[3:]:  # one joins at a time, while the others run
        tickets += engine.submit([request], sampling)
        ended |= dict(engine.advance())
    assert 0 < len(ended) < len(asked)
    ended |= run_out(engine)
    assert len(set(tickets)) == len(asked) == len(ended)
    for ticket, expected in zip(tickets, batch, strict=True):
        assert_same(ended[ticket], expected)


def test_short_completions_end_before_long_ones(engine, requests):
    tickets = engine.submit(requests(), Sampling(1.0, 40))
    in_order = []
    while engine.num_in_flight:
        in_order += lengths(completion for _, completion in engine.advance())
    assert len(in_order) == len(tickets) and in_order == sorted(in_order) and in_order[0] < in_order[-1]


def test_what_is_aborted_is_counted_never_returned_and_leaves_the_others_alone(engine, requests):
    asked, sampling = requests(), Sampling(1.0, 40)
    batch = engine.generate(asked, sampling)
    tickets = engine.submit(asked, sampling)
    ended = {}
    while len(ended) < 4:
        ended |= dict(engine.advance())
    so_far = max(len(completion.token_ids) for completion in ended.values())
    alive = [ticket for ticket in tickets if ticket not in ended]
    given_up, unknown = alive[::2], max(tickets) + 1000
    tokens = engine.abort([*given_up, *ended, unknown])
    assert tokens == dict.fromkeys(given_up, so_far) and so_far > 0  # all have run since the same moment
    assert engine.num_in_flight == len(alive) - len(given_up)
    assert engine.abort(given_up) == {}
    ended |= run_out(engine)
    assert set(ended) == set(tickets) - set(given_up)
    for ticket, expected in zip(tickets, batch, strict=True):
        if ticket in ended:
            assert_same(ended[ticket], expected)


def test_a_rollout_aborted_before_it_started_cost_nothing(engine, requests):
    tickets = engine.submit(requests(1), Sampling(1.0, 10))
    assert engine.num_in_flight == len(tickets)
    assert engine.abort(tickets) == dict.fromkeys(tickets, 0)
    assert engine.num_in_flight == 0 and engine.advance() == []


def test_no_requests_are_no_work(engine):
    assert engine.submit([], Sampling(1.0, 5)) == [] and engine.num_in_flight == 0
    assert engine.advance() == [] and engine.abort([]) == {} and engine.generate([], Sampling(1.0, 5)) == []


def test_different_samplings_share_a_batch(engine, requests):
    samplings = [Sampling(1.0, 3), Sampling(0.5, 20), Sampling(0.0, 10)]
    expected = [completion for sampling in samplings for completion in engine.generate(requests(1), sampling)]
    tickets = [ticket for sampling in samplings for ticket in engine.submit(requests(1), sampling)]
    ended = run_out(engine)
    for ticket, completion in zip(tickets, expected, strict=True):
        assert_same(ended[ticket], completion)


def test_after_a_sync_the_new_weights_are_sampled_from_and_nothing_cached_of_the_old_ones(
    engine, contract_policy, make_policy, plain_logprobs
):
    """The prompt is long enough to be cached in blocks; it was computed under the old weights a moment ago."""
    long_prompt = tuple(range(3, 100)) * 4
    asked, sampling = [Request(long_prompt, seed) for seed in range(5)], Sampling(1.0, 12)
    other, version = make_policy(seed=1, width=64).model, engine.policy_version
    before = engine.generate(asked, sampling)
    assert {completion.policy_version for completion in before} == {version}
    learner = contract_policy.model
    old = {name: weight.clone() for name, weight in learner.named_parameters()}
    try:
        put(learner, dict(other.named_parameters()))
        engine.release_memory()
        engine.sync_weights(learner.named_parameters())
        after = engine.generate(asked, sampling)
    finally:
        put(learner, old)
        engine.sync_weights(learner.named_parameters())
    assert {completion.policy_version for completion in after} == {version + 1}
    assert engine.policy_version == version + 2
    for request, then, now in zip(asked, before, after, strict=True):
        assert then.token_ids.tolist() != now.token_ids.tolist()
        np.testing.assert_allclose(now.behavior_logprobs, plain_logprobs(other, request, now, 1.0), atol=1e-4)
    for then, again in zip(before, engine.generate(asked, sampling), strict=True):
        assert_same(then, again)


def put(model, weights) -> None:
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(weights[name])


def test_weights_are_not_changed_under_a_running_rollout(engine, requests):
    tickets = engine.submit(requests(1), Sampling(1.0, 5))
    with pytest.raises(AssertionError, match="in flight"):
        engine.sync_weights([])
    engine.abort(tickets)


@pytest.mark.parametrize(
    ("temperature", "max_new_tokens", "message"),
    [
        (-0.5, 5, r"temperature = -0.5; expected a number in \[0, inf\)"),
        (float("nan"), 5, r"temperature = nan; expected"),
        (1.0, 0, "max_new_tokens = 0; expected 1 or more"),
    ],
)
def test_impossible_sampling_is_refused(temperature, max_new_tokens, message):
    with pytest.raises(ValueError, match=message):
        Sampling(temperature, max_new_tokens)
