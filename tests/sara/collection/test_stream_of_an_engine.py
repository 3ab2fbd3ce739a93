"""A stream from an engine with a verifier: `RolloutSampler` as a source, and training with `schedule = "stream"`."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sara.allocation import MISSING, Draws, FixedAllocator, Limits, SequentialAllocator
from sara.collection import collect_streaming
from sara.config import RunConfig
from sara.datasets import load_problems
from sara.datasets.base import Problem
from sara.engines.base import Completion, Engine, Sampling
from sara.engines.huggingface import HuggingFaceEngine
from sara.models import Reader, load_policy
from sara.rollouts import PromptPool, RolloutSampler
from sara.seeds import unit_interval
from sara.selection import ShuffleSelector
from sara.training import Trainer
from sara.verifiers import Verdict


class TokenByToken(Engine):
    """A completion is some of the ids 5, 6, 7, ...: how many is the seed's choice, as in any engine. One a call."""

    def __init__(self, max_sequences: int = 512) -> None:
        self.max_sequences, self.num_submitted, self.running = max_sequences, 0, {}

    @property
    def num_in_flight(self):
        return len(self.running)

    def submit(self, requests, sampling):
        tickets = list(range(self.num_submitted, self.num_submitted + len(requests)))
        self.num_submitted += len(requests)
        for ticket, request in zip(tickets, requests, strict=True):
            chance = float(unit_interval(np.array([request.seed], dtype=np.uint64))[0])
            self.running[ticket] = [0, 1 + int(chance * 20)]
        return tickets

    def advance(self):
        for counts in self.running.values():
            counts[0] += 1
        ended = [(ticket, total) for ticket, (done, total) in self.running.items() if done == total]
        for ticket, _ in ended:
            del self.running[ticket]
        return [(ticket, self.completion(total)) for ticket, total in ended]

    def completion(self, total):
        return Completion(np.arange(5, 5 + total), np.zeros(total, dtype=np.float32), "stop", 0)

    def abort(self, tickets):
        return {ticket: self.running.pop(ticket)[0] for ticket in list(tickets) if ticket in self.running}

    def sync_weights(self, named_weights):
        self.policy_version += 1


def is_even(text: str) -> Verdict:
    """Right by length, so by the seed: about half of all rollouts."""
    return Verdict.RIGHT if len(text) % 2 else Verdict.WRONG


@pytest.fixture
def make_stream(tokenizer):
    def make(verify=is_even, engine=None, prompts: int = 40) -> RolloutSampler:
        problems = [Problem(f"{i}", f"Use {3 + i} once", {}, verify) for i in range(prompts)]
        sampling = Sampling(temperature=1.0, max_new_tokens=24)
        pool = PromptPool(Reader(tokenizer, context=512), problems, sampling.max_new_tokens)
        return RolloutSampler(engine or TokenByToken(), tokenizer, pool, sampling, run_seed=3)

    return make


def draws(*names: tuple[int, int, int]) -> Draws:
    return Draws.of(list(names))


def drain(sampler) -> dict[tuple[int, int, int], tuple[int, int]]:
    """All that is under way, advanced to its end: name -> reward and tokens."""
    found = {}
    while sampler.engine.num_in_flight or sampler._scoring:
        ended, outcomes = sampler.advance()
        found |= dict(zip(ended.names(), zip(*(column.tolist() for column in outcomes), strict=True), strict=True))
    return found


def test_a_stream_gives_the_rewards_and_lengths_of_a_batch(make_stream):
    names = [(prompt, slot, attempt) for prompt in range(5) for slot in range(4) for attempt in (0, 1)]
    batch = make_stream().draw(2, Draws.of(names))
    sampler = make_stream()
    sampler.start(2, Draws.of(names))
    expected = dict(zip(names, zip(batch.rewards.tolist(), batch.tokens.tolist(), strict=True), strict=True))
    assert drain(sampler) == expected
    assert {reward for reward, _ in expected.values()} == {0, 1}


def test_a_free_place_is_one_that_the_engine_has(make_stream):
    sampler = make_stream(engine=TokenByToken(max_sequences=3))
    assert sampler.num_free == 3
    sampler.start(1, draws((0, 0, 0), (0, 1, 0)))
    assert sampler.num_free == 1
    drain(sampler)
    assert sampler.num_free == 3


def test_scoring_goes_on_while_the_engine_decodes(make_stream):
    """The verifier waits until the engine has decoded once more: scored in between, this would never end."""
    decoded = threading.Event()

    class Telling(TokenByToken):
        def advance(self):
            if self.num_ended:
                decoded.set()
            ended = super().advance()
            self.num_ended += len(ended)
            return ended

    def verify(text):
        return Verdict.RIGHT if decoded.wait(timeout=60) else Verdict.UNSCORABLE

    engine = Telling()
    engine.num_ended = 0
    sampler = make_stream(verify, engine)
    sampler.start(1, draws(*((0, slot, 0) for slot in range(6))))
    assert {reward for reward, _ in drain(sampler).values()} == {1}


def test_a_rollout_comes_back_at_the_same_call_however_long_scoring_takes(make_stream):
    arrivals = []
    for pause_s in (0.0, 0.02):
        sampler = make_stream(lambda text, pause_s=pause_s: threading.Event().wait(pause_s) or Verdict.RIGHT)
        sampler.start(1, draws(*((0, slot, 0) for slot in range(8))))
        calls = []
        while sampler.engine.num_in_flight or sampler._scoring:
            calls.append(sampler.advance()[0].names())
        arrivals.append(calls)
    assert arrivals[0] == arrivals[1] and sum(map(len, arrivals[0])) == 8


def test_what_is_aborted_is_forgotten_wherever_it_is(make_stream):
    """Running, being scored, or drawn: none is returned or taken any more, and each has its tokens counted."""
    sampler = make_stream()
    names = [(0, slot, 0) for slot in range(12)]
    lengths = dict(zip(names, make_stream().draw(1, Draws.of(names)).tokens.tolist(), strict=True))
    sampler.start(1, Draws.of(names))
    drawn, num_calls = [], 0
    while not (drawn and sampler._scoring and sampler._running):
        drawn += sampler.advance()[0].names()
        num_calls += 1
    scored, scoring, running = drawn[0], next(iter(sampler._scoring)), next(iter(sampler._running.values()))
    tokens = sampler.abort(draws(running, scored, scoring))
    assert tokens.tolist() == [num_calls, lengths[scored], lengths[scoring]]
    drawn += drain(sampler)
    assert not {scoring, running} & set(drawn)
    assert {rollout.slot for rollout in sampler.take([0])} == set(range(12)) - {scored[1], scoring[1], running[1]}


def test_taking_gives_up_what_is_under_way(make_stream):
    sampler = make_stream()
    sampler.start(1, draws(*((0, slot, 0) for slot in range(12))))
    while not sampler._scoring:
        sampler.advance()
    sampler.take([])
    assert sampler.engine.num_in_flight == 0 and sampler.advance()[0].size == 0 and sampler.take([0]) == []


def test_a_request_that_the_engine_failed_on_is_missing(make_stream):
    class Failing(TokenByToken):
        def completion(self, total):
            return None if total > 10 else super().completion(total)

    sampler = make_stream(engine=Failing())
    sampler.start(1, draws(*((0, slot, 0) for slot in range(12))))
    found = drain(sampler)
    assert (MISSING, 0) in found.values() and {reward for reward, _ in found.values()} > {MISSING}
    assert len(sampler.take([0])) == sum(reward != MISSING for reward, _ in found.values())


@pytest.mark.parametrize("on_commit", ["fill", "stop"])
def test_a_group_is_trained_on_the_first_slots_of_its_prompt(make_stream, on_commit):
    """All k of them in fill mode; in stop mode up to the first that differs, though later ones have ended before."""
    sampler, k = make_stream(engine=TokenByToken(max_sequences=16)), 8
    allocator = SequentialAllocator(k, probe=4, on_commit=on_commit)
    collection = collect_streaming(1, ShuffleSelector(40, 0), allocator, sampler, Limits(target=6), 3)
    rollouts = sampler.take(collection.trained.tolist())
    groups = {prompt: [r for r in rollouts if r.prompt == prompt] for prompt in collection.trained.tolist()}
    assert len(groups) == 6 and collection.metrics()["rollouts/aborted"] > 0
    for prompt, group in groups.items():
        row = int(np.flatnonzero(collection.ledger.prompts == prompt)[0])
        assert [rollout.slot for rollout in group] == list(range(collection.ledger.n[row]))
        rewards = [rollout.reward for rollout in group]
        assert len(set(rewards)) == 2 and sum(rewards) == collection.ledger.s[row]
        assert len(group) == k if on_commit == "fill" else len(set(rewards[:-1])) == 1


def test_a_real_engine_trains_on_the_same_rollouts_with_few_places_as_with_many(make_policy, make_stream):
    policy, found = make_policy(), []
    for places in (5, 64):
        engine = HuggingFaceEngine(policy.model, policy.end_token_ids, places)
        sampler = make_stream(engine=engine, prompts=12)
        collection = collect_streaming(
            1, ShuffleSelector(12, 0), SequentialAllocator(4, probe=2), sampler, Limits(target=3), 3
        )
        rollouts = sampler.take(collection.trained.tolist())
        found.append([(r.prompt, r.slot, r.reward, r.completion.token_ids.tolist()) for r in rollouts])
        assert engine.num_in_flight == 0
    assert found[0] == found[1] and len(found[0]) == 12


def test_uniform_in_a_stream_draws_what_it_draws_in_a_round(make_stream):
    sampler = make_stream(engine=TokenByToken(max_sequences=7))
    collection = collect_streaming(1, ShuffleSelector(40, 0), FixedAllocator(4), sampler, Limits(target=5), 3)
    metrics = collection.metrics()
    assert (metrics["rollouts/trained"], metrics["rollouts/generated"]) == (20, 20)


# --------------------------------------------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    return RunConfig(
        strategy="sara+dps",
        output_dir=tmp_path_factory.mktemp("stream"),
        data={"train_size": 48, "heldout_size": 4, "sizes": {2: 1.0, 3: 1.0}},
        allocation={"groups_per_step": 3, "k": 4, "probe": 2, "increment": 2, "schedule": "stream"},
        engine={"max_new_tokens": 64, "max_sequences": 12},
        training={"steps": 1, "evaluate_every": 0, "threads": 1},
    )


def test_training_in_a_stream_interrupted_and_rewound_goes_on_as_if_never_interrupted(config):
    problems = load_problems(config.data)
    straight = Trainer(config, load_policy(config.model), *problems)
    reports = [straight.step() for _ in range(2)]
    assert all(report.collection.outcome == "target" for report in reports)
    assert sum(report.metrics["rollouts/aborted"] for report in reports) > 0

    trainer = Trainer(config, load_policy(config.model), *problems)
    trainer.step()
    position = trainer.position()
    advance, calls = trainer.engine.advance, iter(range(20))

    def interrupted():
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return advance()

    trainer.engine.advance = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.step()
    assert trainer.engine.num_in_flight > 0
    trainer.engine.advance = advance
    trainer.rewind(position)
    again = trainer.step()
    np.testing.assert_array_equal(again.collection.trained, reports[1].collection.trained)
    timed = {name for name in again.metrics if name.startswith("time/")}
    assert {n: v for n, v in again.metrics.items() if n not in timed} == {
        n: v for n, v in reports[1].metrics.items() if n not in timed
    }
