"""The contract of an engine, held by every member of the family."""

from __future__ import annotations

import numpy as np
import pytest

from sara.engines.base import Engine, Request, Sampling
from sara.engines.huggingface import HuggingFaceEngine
from sara.seeds import rollout_seeds

SEEDS = rollout_seeds(0, 1, np.arange(1000), 0).tolist()
PROMPTS = [(11, 3, 116), (7, 9, 20, 31, 42, 53, 64, 75), (5,), (90, 91, 92, 93, 94), (90, 91, 92, 93, 95)]
ENDS = tuple(range(115, 132))


@pytest.fixture(scope="module")
def engine(make_policy) -> Engine:
    return HuggingFaceEngine(make_policy().model, ENDS, 64)


def requests(seeds_per_prompt: int = 4) -> list[Request]:
    seeds = iter(SEEDS)
    return [Request(prompt, next(seeds)) for prompt in PROMPTS for _ in range(seeds_per_prompt)]


def run_out(engine: Engine) -> dict:
    ended = {}
    while engine.num_in_flight:
        ended |= dict(engine.advance())
    return ended


def assert_same(left, right) -> None:
    assert left.token_ids.tolist() == right.token_ids.tolist()
    np.testing.assert_allclose(left.behavior_logprobs, right.behavior_logprobs, atol=1e-4)
    assert left.finish_reason == right.finish_reason


def test_a_stream_gives_the_completions_of_a_batch(engine):
    asked, sampling = requests(), Sampling(1.0, 24)
    batch = engine.generate(asked, sampling)
    assert len({len(completion.token_ids) for completion in batch}) > 4
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


def test_short_completions_end_before_long_ones(engine):
    asked, sampling = requests(), Sampling(1.0, 40)
    tickets = engine.submit(asked, sampling)
    lengths = []
    while engine.num_in_flight:
        lengths += [[len(completion.token_ids) for _, completion in engine.advance()]]
    in_order = [length for ended in lengths for length in ended]
    assert len(in_order) == len(tickets) and in_order == sorted(in_order) and in_order[0] < in_order[-1]


def test_what_is_aborted_is_counted_never_returned_and_leaves_the_others_alone(engine):
    asked, sampling = requests(), Sampling(1.0, 40)
    batch = engine.generate(asked, sampling)
    tickets = engine.submit(asked, sampling)
    ended = {}
    for _ in range(6):
        ended |= dict(engine.advance())
    alive = [ticket for ticket in tickets if ticket not in ended]
    given_up, unknown = alive[::2], max(tickets) + 1000
    tokens = engine.abort([*given_up, *ended, unknown])
    assert set(tokens) == set(given_up) and engine.num_in_flight == len(alive) - len(given_up)
    assert all(4 <= count <= 6 for count in tokens.values())
    assert engine.abort(given_up) == {}
    ended |= run_out(engine)
    assert set(ended) == set(tickets) - set(given_up)
    for ticket, expected in zip(tickets, batch, strict=True):
        if ticket in ended:
            assert_same(ended[ticket], expected)


def test_a_rollout_aborted_before_it_started_cost_nothing(engine):
    tickets = engine.submit(requests(1), Sampling(1.0, 10))
    assert engine.num_in_flight == len(tickets)
    assert engine.abort(tickets) == dict.fromkeys(tickets, 0)
    assert engine.num_in_flight == 0 and engine.advance() == []


def test_no_requests_are_no_work(engine):
    assert engine.submit([], Sampling(1.0, 5)) == [] and engine.num_in_flight == 0
    assert engine.advance() == [] and engine.abort([]) == {} and engine.generate([], Sampling(1.0, 5)) == []


def test_different_samplings_share_a_batch(engine):
    short, long = Sampling(1.0, 3), Sampling(0.5, 20)
    expected = [*engine.generate(requests(1), short), *engine.generate(requests(1), long)]
    tickets = engine.submit(requests(1), short) + engine.submit(requests(1), long)
    ended = run_out(engine)
    for ticket, completion in zip(tickets, expected, strict=True):
        assert_same(ended[ticket], completion)


def test_greedy_decoding_does_not_depend_on_the_seed_and_has_logprob_zero(engine):
    greedy = Sampling(0.0, 20)
    first = engine.generate([Request(PROMPTS[0], SEEDS[0])], greedy)[0]
    again = engine.generate([Request(PROMPTS[0], SEEDS[1])], greedy)[0]
    assert_same(first, again)
    assert not first.behavior_logprobs.any()


def test_weights_are_not_changed_under_a_running_rollout(engine):
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
