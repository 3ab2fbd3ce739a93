"""Collection in a stream, against a reference that draws one prompt after the other, one rollout at a time."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sara.allocation import (
    MISSING,
    Draws,
    DynamicSamplingAllocator,
    Fate,
    FixedAllocator,
    Ledger,
    Limits,
    Outcomes,
    SequentialAllocator,
)
from sara.collection import StreamCollection, collect_streaming
from sara.seeds import audit_lots, rollout_seeds, unit_interval
from sara.selection import Evidence, Selector, ShuffleSelector
from sara.simulation.source import PopulationSource
from sara.simulation.timed import TimedSource
from sara.strategies import STRATEGIES, build_strategy
from tests.sara.allocators import after_one_abandoned

FATES = ("effective", "abandoned", "audited", "saturated", "surplus", "unfinished", "aborted", "missing")
each_strategy = pytest.mark.parametrize("name", STRATEGIES)
pytestmark = pytest.mark.filterwarnings("ignore:allocator.tau_low")  # thresholds too low to save anything, on purpose


# ------------------------------------------------------------------------------------------------------ what draws


class Lengths:
    """The rewards of `source` with lengths of another make: any way in which lengths and rewards may be linked."""

    def __init__(self, source, kind: str) -> None:
        self.source, self.kind = source, kind

    def draw(self, step, draws):
        rewards, _ = self.source.draw(step, draws)
        chance = unit_interval(rollout_seeds(0, step, draws.prompts, draws.slots, draws.attempts), 5)
        tokens = {
            "right is short": np.where(rewards == 1, 5 + 10 * chance, 200 + 800 * chance),
            "right is long": np.where(rewards == 1, 200 + 800 * chance, 5 + 10 * chance),
            "all at once": np.full(draws.size, 7),
            "long tails": np.minimum(20 * (1 - chance) ** -1.2, 5000),
            "late slots first": 900 - 100 * draws.slots + 20 * chance,
        }[self.kind]
        return Outcomes(rewards, np.maximum(tokens, 1).astype(np.int64))


KINDS = ("right is short", "right is long", "all at once", "long tails", "late slots first")


class Watched:
    """Passes everything on, remembers what was started, what ended, what was aborted and what of it was running."""

    def __init__(self, source) -> None:
        self.source, self.started, self.ended, self.aborted, self.cut_short = source, [], [], [], []
        self.running = set()

    @property
    def num_free(self) -> int:
        return self.source.num_free

    def start(self, step, draws):
        names = list(zip(*(column.tolist() for column in draws), strict=True))
        assert not self.running & set(names)
        self.started += names
        self.running |= set(names)
        self.source.start(step, draws)

    def advance(self):
        draws, outcomes = self.source.advance()
        ended = list(zip(*(column.tolist() for column in (*draws, *outcomes)), strict=True))
        self.running -= {draw[:3] for draw in ended}
        self.ended += ended
        return draws, outcomes

    def abort(self, draws):
        tokens = self.source.abort(draws)
        aborted = list(zip(*(column.tolist() for column in (*draws, tokens)), strict=True))
        self.aborted += aborted
        self.cut_short += [draw for draw in aborted if draw[:3] in self.running]
        self.running -= {draw[:3] for draw in aborted}
        return tokens


class Scripted:
    """Rewards and lengths by prompt and slot; `missing`: how many attempts at a (prompt, slot) come back unscored."""

    def __init__(self, rewards: dict[int, str], lengths: dict[int, list[int]], missing=None) -> None:
        self.rewards, self.lengths, self.missing = rewards, lengths, missing or {}

    def draw(self, step, draws):
        rows = list(zip(*(column.tolist() for column in draws), strict=True))
        rewards = [MISSING if a < self.missing.get((p, s), 0) else int(self.rewards[p][s]) for p, s, a in rows]
        return Outcomes(np.array(rewards, dtype=np.int8), np.array([self.lengths[p][s] for p, s, _ in rows]))


class ListSelector(Selector):
    """Opens prompts in a given order and keeps the evidence."""

    def __init__(self, prompts) -> None:
        self.prompts, self.evidence, self.next = list(prompts), None, 0

    def begin_step(self, step, opens_at_least):
        self.next = 0

    def select(self, count):
        taken = self.prompts[self.next : self.next + count]
        self.next += len(taken)
        return np.array(taken, dtype=np.int64)

    def give_back(self, count):
        self.next -= count

    def end_step(self, evidence):
        self.evidence = evidence

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


# --------------------------------------------------------------------------------------------------- the reference


def one_by_one(step, selector, allocator, source, limits, seed, max_redraws=2):
    """A step without any order of ending: each prompt is drawn and judged by itself, slot after slot, until the target
    is met or the pool is exhausted. Returns what was trained on, and the ledger. There must be no budget."""
    selector.begin_step(step, limits.opens_at_least(allocator.k))
    num_wanted = limits.target if isinstance(allocator, FixedAllocator) else 10**9
    alone: list[Ledger] = []
    while sum(ledger.num_committed for ledger in alone) < limits.target and len(alone) < num_wanted:
        prompt = selector.select(1)
        if not prompt.size:
            break
        alone.append(Ledger())
        alone[-1].open(prompt, audit_lots(seed, step, prompt))
        draw_alone(step, alone[-1], allocator, source, max_redraws)
    together = Ledger()
    for name in Ledger._COLUMNS:
        setattr(together, name, np.concatenate([getattr(ledger, name) for ledger in alone]))
    allocator.end_step(together)
    chances = allocator.chances(together)
    selector.end_step(Evidence(together.prompts, together.n, together.s, chances))
    return together


def draw_alone(step, ledger, allocator, source, max_redraws):
    first = int(allocator.allocate(ledger, Limits(target=2))[0])
    for slot in range(allocator.k):
        for attempt in range(max_redraws + 1):
            draw = Draws(ledger.prompts, np.array([slot]), np.array([attempt]))
            outcomes = source.draw(step, draw)
            ledger.record(np.array([0]), outcomes)
            if outcomes.rewards[0] != MISSING:
                break
        else:
            ledger.fate[:] = Fate.UNSCORABLE
        if slot + 1 < first and not ledger.is_mixed[0] and ledger.fate[0] == Fate.OPEN:
            continue
        allocator.judge(ledger)
        goes_on = (Fate.OPEN, Fate.AUDITED, *([Fate.COMMITTED] if allocator.fills_committed else []))
        if ledger.fate[0] not in goes_on:
            return


def rows(ledger: Ledger) -> list[tuple[int, ...]]:
    """What is learned from: prompts, rollouts, successes, their tokens and fates."""
    columns = (ledger.prompts, ledger.n, ledger.s, ledger.tokens, ledger.fate, ledger.is_audited)
    return list(zip(*(column.tolist() for column in columns), strict=True))


options_of_sara = st.fixed_dictionaries(
    {
        "tau_low": st.sampled_from([0.3, 0.5, 0.7, "auto"]),
        "probe": st.integers(1, 8),
        "increment": st.integers(1, 4),
        "on_commit": st.sampled_from(["fill", "stop"]),
        "audit_rate": st.sampled_from([0.0, 0.0, 0.4]),
        "train_audited": st.booleans(),
        "cost": st.sampled_from(["rollouts", "tokens"]),
    }
)


@each_strategy
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    places=st.sampled_from([1, 3, 16, 500]),
    target=st.integers(1, 8),
    options=options_of_sara,
    missing_rate=st.sampled_from([0.0, 0.0, 0.3]),
    pool=st.sampled_from([6, 40, 200]),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_is_trained_and_learned_is_that_of_drawing_one_by_one(
    name, kind, places, target, options, missing_rate, pool, seed
):
    """Three steps, so that what selector and allocator learned shows in what the next steps do."""
    build = {"num_prompts": pool, "seed": seed, "k": 8, "allocator_options": options if "sara" in name else {}}
    if "ds" in name:
        build["allocator_options"] = {"max_gen_batches": None}
    selector, allocator = build_strategy(name, **build)
    other_selector, other_allocator = build_strategy(name, **build)
    source = Lengths(PopulationSource.from_beta(pool, 0.3, 0.4, seed, missing_rate=missing_rate), kind)
    for step in (1, 2, 3):
        collection = collect_streaming(
            step, selector, allocator, TimedSource(source, places), Limits(target=target), seed
        )
        expected = one_by_one(step, other_selector, other_allocator, source, Limits(target=target), seed)
        considered = collection.ledger.head(len(expected))
        # An audit of a prompt that is not considered, or that nobody waits for, tells nothing: only fates may differ.
        assert rows(considered) == rows(expected)
        assert sorted(collection.trained) == sorted(expected.prompts[expected.fate == Fate.COMMITTED])
        assert str(allocator.state_dict()) == str(other_allocator.state_dict())
    assert str(selector.select(5)) == str(other_selector.select(5))


# ------------------------------------------------------------------------------------------ laws of any strategy


@each_strategy
@settings(max_examples=25, deadline=None)
@given(
    k=st.sampled_from([2, 3, 8]),
    limits=st.builds(Limits, target=st.integers(1, 9), budget=st.none() | st.integers(1, 250))
    | st.builds(Limits, budget=st.integers(1, 250)),
    options=options_of_sara,
    kind=st.sampled_from(KINDS),
    places=st.sampled_from([1, 4, 30, 500]),
    missing_rate=st.sampled_from([0.0, 0.1, 0.6]),
    max_redraws=st.integers(0, 3),
    pool=st.sampled_from([5, 40, 200]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_step_keeps_its_promises(name, k, limits, options, kind, places, missing_rate, max_redraws, pool, seed):
    options = options | {"probe": min(options["probe"], k)}
    selector, allocator = build_strategy(
        name, num_prompts=pool, seed=seed, k=k, allocator_options=options if "sara" in name else {}
    )
    population = Lengths(PopulationSource.from_beta(pool, 0.3, 0.4, seed, missing_rate=missing_rate), kind)
    for step in (1, 2):
        source = Watched(TimedSource(population, places))
        collection = collect_streaming(step, selector, allocator, source, limits, seed, max_redraws)
        ledger, metrics = collection.ledger, collection.metrics()

        # What was drawn: never over the budget, no slot beyond k, no attempt beyond the allowed; nothing is left over.
        assert limits.budget is None or len(source.started) <= limits.budget
        assert all(slot < k and attempt <= max_redraws for _, slot, attempt in source.started)
        assert source.source.num_free == places and not source.running

        # What was counted: every rollout and token has one fate, and a missing rollout is no failure.
        assert metrics["rollouts/generated"] == len(source.started)
        for unit in ("rollouts", "tokens"):
            assert metrics[f"{unit}/generated"] == sum(metrics[f"{unit}/{fate}"] for fate in FATES)
        tokens = sum(draw[4] for draw in source.ended) + sum(draw[3] for draw in source.cut_short)
        assert metrics["tokens/generated"] == tokens
        assert metrics["rollouts/missing"] == sum(reward == MISSING for *_, reward, _ in source.ended)
        assert metrics["rollouts/aborted"] >= len(source.cut_short)
        opened = ("committed", "abandoned_fail", "abandoned_pass", "audited", "unfinished", "unscorable")
        assert metrics["groups/opened"] == len(ledger) == sum(metrics[f"groups/{fate}"] for fate in opened)

        # What counts is a prefix: the first n slots that could be scored, unless the budget left a gap.
        final = {(prompt, slot): (reward, attempt) for prompt, slot, attempt, reward, _ in source.ended}
        for prompt, n, s in zip(ledger.prompts.tolist(), ledger.n.tolist(), ledger.s.tolist(), strict=True):
            results = [final.get((prompt, slot), (None, 0))[0] for slot in range(k)]
            if limits.budget is None or missing_rate == 0:
                assert MISSING not in results[:n] and None not in results[:n]
                assert s == sum(results[:n])

        # What is trained: each prompt once, no more than wanted, effective and whole unless redraws ate the budget.
        trained = np.isin(ledger.prompts, collection.trained)
        assert np.unique(collection.trained).size == collection.trained.size == metrics["groups/trained"]
        assert (trained == (ledger.fate == Fate.COMMITTED)).all()
        assert limits.target is None or collection.trained.size <= limits.target
        if "sara" in name or "ds" in name:
            assert ledger.is_mixed[trained].all()
        if allocator.fills_committed and (missing_rate == 0 or limits.budget is None):
            assert (ledger.n[trained] == k).all()
        if collection.outcome == "target":
            assert collection.trained.size == limits.target
        assert not (ledger.fate == Fate.OPEN).any()


@pytest.mark.parametrize("on_commit", ["fill", "stop"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_ending_changes_no_decision_on_any_prompt(kind, on_commit):
    """Five makes of lengths, five orders of ending: every prompt that is decided in two of them is decided alike."""
    decided: dict[int, tuple] = {}
    for other in (kind, "all at once"):
        source = Lengths(PopulationSource.from_beta(400, 0.2, 0.4, 1), other)
        allocator = SequentialAllocator(8, 0.6, probe=3, increment=3, on_commit=on_commit)
        collection = collect_streaming(
            1, ShuffleSelector(400, 1), allocator, TimedSource(source, 40), Limits(target=20), 1
        )
        for prompt, n, s, _, fate, _ in rows(collection.ledger):
            if fate in (Fate.COMMITTED, Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS):
                assert decided.setdefault(prompt, (n, s, fate)) == (n, s, fate)
    assert len(decided) > 40


def test_judging_by_what_ends_first_would_favour_short_answers_and_this_does_not():
    """All rates 1/2, right answers a hundred times shorter. Of the rollouts read, half are right; of those that end
    first, nearly all: the first four of eight to end are right with chance 163/256 (four or more of eight are)."""
    rates = np.full(3000, 0.5)
    source = Watched(TimedSource(Lengths(PopulationSource(rates, 5), "right is short"), 60))
    allocator = SequentialAllocator(8, probe=8)
    selector = ListSelector(range(3000))
    collection = collect_streaming(1, selector, allocator, source, Limits(target=100), 5)
    evidence = selector.evidence
    share = evidence.s.sum() / evidence.n.sum()
    assert share == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / evidence.n.sum()))
    kept = np.isin(collection.ledger.prompts, collection.trained)
    assert collection.ledger.s[kept].sum() / 800 == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / 800))
    first_to_end: dict[int, list[int]] = {}
    for prompt, _, _, reward, _ in source.ended:
        first_to_end.setdefault(prompt, []).append(reward)
    early = [reward for rewards in first_to_end.values() for reward in rewards[:4]]
    assert np.mean(early) > 0.8


def test_groups_that_are_kept_are_the_first_to_be_opened_not_the_first_to_end():
    """Prompt 0 takes a hundred times as long as the others, and is kept all the same."""
    lengths = {p: [500 if p == 0 else 5] * 4 for p in range(6)}
    source = Watched(TimedSource(Scripted({p: "0101" for p in range(6)}, lengths), 24))
    collection = collect_streaming(
        1, ListSelector(range(6)), DynamicSamplingAllocator(4, chunk=6), source, Limits(target=2), 0
    )
    assert sorted(collection.trained) == [0, 1]
    assert source.source.clock == 500
    assert collection.metrics()["groups/surplus"] == 4


# --------------------------------------------------------------------------------------------------- steps by hand


def test_a_stream_of_sara_by_hand():
    """k = 4, probe 2, tau_low 0.5 (two equal outcomes: abandoned), target 1, six places.

    The target of 1 at a commit rate of 1/2 opens prompts 0 and 1, which wait for slots 0 and 1 each. At 10 prompt 1
    has slot 0, at 20 slot 1: it is mixed, and its slots 2 and 3 start at once, though prompt 0 is still open and comes
    first. At 30 prompt 0 has slot 1 alone, which is no prefix. At 40 prompt 1 is complete. At 100 prompt 0 has slot 0:
    two failures, it is abandoned, and 1 is the first that committed. 4 + 2 rollouts, none aborted.
    """
    rewards, lengths = {0: "0000", 1: "0110"}, {0: [100, 30, 1, 1], 1: [10, 20, 20, 15]}
    source = Watched(TimedSource(Scripted(rewards, lengths), 6))
    selector = ListSelector(range(2))
    allocator = after_one_abandoned(SequentialAllocator(4, probe=2, increment=2, learn_prior=False))
    collection = collect_streaming(1, selector, allocator, source, Limits(target=1), 0)
    assert source.started == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 3, 0)]
    assert [draw[:2] for draw in source.ended] == [(1, 0), (1, 1), (0, 1), (1, 3), (1, 2), (0, 0)]
    assert rows(collection.ledger) == [
        (0, 2, 0, 130, Fate.ABANDONED_FAIL, False),
        (1, 4, 2, 65, Fate.COMMITTED, False),
    ]
    assert (collection.outcome, collection.trained.tolist(), collection.rounds) == ("target", [1], 2)
    assert source.source.clock == 100 and not source.aborted


def test_what_runs_of_an_abandoned_prompt_is_aborted_and_counted():
    """k = 8, tau_low 0.6. A probe of 2 fails twice: p_eff = 6/9, and 4 more are granted. At 2 + 3 the third failure
    (p_eff = 5/9) abandons the prompt, where rounds would have read all six. Slot 3 has ended by then, 4 and 5 run: all
    three count as aborted, after 1 + 3 + 3 tokens.
    """
    source = Watched(TimedSource(Scripted({0: "00000000"}, {0: [1, 2, 3, 1, 50, 60, 1, 1]}), 8))
    allocator = SequentialAllocator(8, 0.6, probe=2, increment=4)
    collection = collect_streaming(1, ListSelector([0]), allocator, source, Limits(target=1), 0)
    assert rows(collection.ledger) == [(0, 3, 0, 6, Fate.ABANDONED_FAIL, False)]
    assert sorted(source.aborted) == [(0, 3, 0, 1), (0, 4, 0, 3), (0, 5, 0, 3)]
    metrics = collection.metrics()
    assert (metrics["rollouts/generated"], metrics["rollouts/abandoned"], metrics["rollouts/aborted"]) == (6, 3, 3)
    assert (metrics["tokens/abandoned"], metrics["tokens/aborted"]) == (6, 7)
    assert collection.outcome == "prompts"


def test_in_stop_mode_a_group_is_its_prefix_up_to_where_it_differs():
    """Slots 0 and 1 differ; slot 2 had ended before them and slot 3 runs: both are aborted and not trained on."""
    source = Watched(TimedSource(Scripted({0: "0111"}, {0: [9, 5, 1, 99]}), 8))
    allocator = SequentialAllocator(4, probe=4, on_commit="stop")
    collection = collect_streaming(1, ListSelector([0]), allocator, source, Limits(target=1), 0)
    assert rows(collection.ledger) == [(0, 2, 1, 14, Fate.COMMITTED, False)]
    assert sorted(source.aborted) == [(0, 2, 0, 1), (0, 3, 0, 9)]
    assert source.source.clock == 9


def test_a_prompt_gets_the_whole_of_its_first_grant_whatever_its_prior_says():
    source = TimedSource(Scripted({0: "0001"}, {0: [4, 3, 2, 1]}), 8)
    allocator = SequentialAllocator(4, probe=3, alpha0=0.001, beta0=10.0)
    collection = collect_streaming(1, ListSelector([0]), allocator, source, Limits(target=1), 0)
    assert rows(collection.ledger) == [(0, 3, 0, 9, Fate.ABANDONED_FAIL, False)]


def test_freed_places_are_filled_at_once():
    """With more asked for than there are places, all of them are taken until nothing waits."""

    class Busy(TimedSource):
        def advance(self):
            seen.append(self.num_free)
            return super().advance()

    seen: list[int] = []
    source = Busy(Lengths(PopulationSource(np.full(64, 0.5), 0), "long tails"), 32)
    collect_streaming(1, ShuffleSelector(64, 0), FixedAllocator(8), source, Limits(target=64), 0)
    assert seen.count(0) > 200 and sorted(seen) == seen


# ----------------------------------------------------------------------------------------- missing, and the budget


def test_a_missing_rollout_is_drawn_again_and_holds_up_its_own_prompt_alone():
    """Slot 0 of prompt 0 is missing twice; meanwhile prompt 1 is read, and slot 1 of prompt 0 waits to be."""
    script = Scripted({0: "01", 1: "01"}, {0: [10, 1], 1: [2, 2]}, missing={(0, 0): 2})
    source = Watched(TimedSource(script, 4))
    collection = collect_streaming(1, ListSelector([0, 1]), DynamicSamplingAllocator(2), source, Limits(target=2), 0)
    assert [draw for draw in source.started if draw[2]] == [(0, 0, 1), (0, 0, 2)]
    assert source.source.clock == 30 and collection.ledger.missing.tolist() == [2, 0]
    assert sorted(collection.trained) == [0, 1]
    metrics = collection.metrics()
    assert (metrics["rollouts/generated"], metrics["rollouts/missing"], metrics["tokens/missing"]) == (6, 2, 20)


def test_a_group_that_takes_the_place_of_one_that_cannot_be_scored_is_drawn_up_again():
    """Target 1. Prompt 0 commits at 2, so prompt 1 is not needed, and what runs of it is aborted. At 50 slot 3 of
    prompt 0 turns out to be beyond scoring: prompt 1 goes on, with the rollouts it would have had."""
    script = Scripted({0: "0101", 1: "0011"}, {0: [1, 2, 5, 50], 1: [30, 30, 30, 30]}, missing={(0, 3): 9})
    source = Watched(TimedSource(script, 8))
    allocator = DynamicSamplingAllocator(4, chunk=2)
    collection = collect_streaming(1, ListSelector([0, 1]), allocator, source, Limits(target=1), 0, max_redraws=0)
    assert [(draw[:2], draw[3]) for draw in source.aborted] == [((1, slot), 2) for slot in range(4)]
    assert source.started[8:] == [(1, slot, 0) for slot in range(4)]
    assert collection.trained.tolist() == [1] and source.source.clock == 80
    assert [fate for *_, fate, _ in rows(collection.ledger)] == [Fate.UNSCORABLE, Fate.COMMITTED]
    metrics = collection.metrics()
    assert (metrics["rollouts/generated"], metrics["rollouts/aborted"], metrics["tokens/aborted"]) == (12, 4, 8)


def test_redraws_that_eat_the_reserve_leave_a_committed_group_short():
    """Budget 4 for one group of 4: a redraw of slot 1 takes one of the four, so slot 3 never starts."""
    source = TimedSource(Scripted({0: "0111"}, {0: [1] * 4}, missing={(0, 1): 1}), 8)
    allocator = SequentialAllocator(4, probe=2, increment=2)
    collection = collect_streaming(1, ListSelector([0]), allocator, source, Limits(target=1, budget=4), 0)
    assert collection.trained.tolist() == [0] and collection.ledger.n.tolist() == [3]
    assert collection.metrics()["groups/short"] == 1


def test_a_slot_that_the_budget_cannot_draw_again_is_passed_over():
    source = TimedSource(Scripted({0: "0111"}, {0: [1] * 4}, missing={(0, 1): 1}), 8)
    collection = collect_streaming(1, ListSelector([0]), FixedAllocator(4), source, Limits(budget=4), 0)
    assert collection.trained.tolist() == [0] and collection.ledger.n.tolist() == [3]
    assert collection.metrics()["rollouts/generated"] == 4


@pytest.mark.parametrize(
    ("allocator", "limits", "outcome"),
    [
        (SequentialAllocator(8), Limits(target=4), "prompts"),
        (DynamicSamplingAllocator(8), Limits(target=4), "prompts"),
        (SequentialAllocator(8), Limits(target=4, budget=60), "budget"),
        (FixedAllocator(8), Limits(target=4, budget=20), "budget"),
        (SequentialAllocator(8), Limits(budget=7), "budget"),
    ],
)
def test_a_step_without_any_effective_group_ends_and_says_why(allocator, limits, outcome):
    source = TimedSource(PopulationSource(np.zeros(30), 0), 16)
    collection = collect_streaming(1, ShuffleSelector(30, 0), allocator, source, limits, seed=0)
    assert collection.outcome == outcome and collection.metrics()["groups/effective"] == 0


def test_dynamic_sampling_opens_no_more_than_its_chunks():
    source = TimedSource(PopulationSource(np.zeros(300), 0), 16)
    allocator = DynamicSamplingAllocator(4, max_gen_batches=3)
    collection = collect_streaming(1, ShuffleSelector(300, 0), allocator, source, Limits(target=5), seed=0)
    assert len(collection.ledger) == 15 and collection.outcome == "complete"


# ------------------------------------------------------------------------------------------------ stop and resume


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("on_commit", ["fill", "stop"])
def test_a_stream_resumed_anywhere_trains_and_learns_as_if_never_stopped(name, on_commit):
    """Stopped after every event, with all that is under way lost: it is drawn again with the same seeds."""
    source = Lengths(PopulationSource.from_beta(60, 0.2, 0.3, 3, missing_rate=0.1), "right is short")
    options = {"on_commit": on_commit, "probe": 2, "increment": 1} if "sara" in name else {}

    def build():
        return build_strategy(name, num_prompts=60, seed=3, k=8, allocator_options=options)

    limits, (selector, allocator) = Limits(target=5), build()
    straight = [collect_streaming(t, selector, allocator, TimedSource(source, 20), limits, 3) for t in (1, 2)]
    state_after = str(allocator.state_dict())

    selector, allocator = build()
    for step, expected in enumerate(straight, start=1):
        collection, events = StreamCollection(step, selector, allocator, limits, seed=3), 0
        while not collection.is_over:
            events += 1
            timed = TimedSource(source, 20)
            for _ in range(events % 40):  # some progress before each stop, more and more of it
                timed.start(step, collection.next_draws(timed.num_free))
                unwanted = collection.observe(*timed.advance())
                collection.count_aborted(unwanted, timed.abort(unwanted))
                if collection.is_over:
                    break
            state = pickle.dumps(collection.state_dict())
            selector, allocator = build()
            collection = StreamCollection.resume(pickle.loads(state), selector, allocator)
        assert events > 2
        got = collection.finish()
        np.testing.assert_array_equal(got.trained, expected.trained)
        count = int(np.flatnonzero(got.ledger.fate == Fate.COMMITTED)[-1]) + 1 if got.outcome == "target" else None
        assert rows(got.ledger)[:count] == rows(expected.ledger)[:count]
        assert got.outcome == expected.outcome
    assert str(allocator.state_dict()) == state_after


def test_the_same_run_twice_is_the_same_in_every_count():
    runs = []
    for _ in range(2):
        source = TimedSource(Lengths(PopulationSource.from_beta(300, 0.2, 0.4, 2), "long tails"), 24)
        selector, allocator = build_strategy("sara+dps", num_prompts=300, seed=2, k=8)
        steps = [collect_streaming(t, selector, allocator, source, Limits(target=8), 2) for t in (1, 2, 3)]
        runs.append([step.metrics() for step in steps] + [source.clock])
    assert runs[0] == runs[1]


# --------------------------------------------------------------------------------------------------------- misuse


def test_a_step_that_is_not_over_cannot_be_finished():
    collection = StreamCollection(7, ShuffleSelector(50, 0), FixedAllocator(), Limits(target=4), seed=0)
    collection.next_draws(5)
    with pytest.raises(ValueError, match="step 7 is not over: 32 draws are pending"):
        collection.finish()


def test_a_draw_that_is_not_under_way_cannot_end():
    collection = StreamCollection(1, ListSelector([3]), FixedAllocator(2), Limits(target=1), seed=0)
    collection.next_draws(1)
    outcome = Outcomes(np.array([1]), np.array([4]))
    for prompt, slot, attempt in ((3, 1, 0), (3, 0, 1), (4, 0, 0), (3, 9, 0)):
        with pytest.raises(ValueError, match=f"prompt {prompt}, slot {slot}, attempt {attempt}; expected a draw"):
            collection.observe(Draws(*(np.array([value]) for value in (prompt, slot, attempt))), outcome)
    draw = Draws(np.array([3, 3]), np.array([0, 0]), np.array([0, 0]))
    with pytest.raises(ValueError, match="ended twice at once"):
        collection.observe(draw, Outcomes(np.array([1, 1]), np.array([4, 4])))


def test_a_selector_that_takes_nothing_back_says_so():
    class Forgetful(ListSelector):
        give_back = Selector.give_back

    source = TimedSource(PopulationSource(np.full(4, 0.5), 0), 8)
    with pytest.raises(NotImplementedError, match="Forgetful takes no prompts back; the schedule 'stream' needs it"):
        collect_streaming(1, Forgetful(range(4)), SequentialAllocator(8), source, Limits(target=2), 0)
