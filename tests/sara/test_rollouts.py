from __future__ import annotations

import numpy as np

from sara.allocation import MISSING, Draws
from sara.builtin.tokenizer import build_tokenizer
from sara.datasets.base import Problem
from sara.datasets.countdown import countdown_problem
from sara.models import Reader
from sara.rollouts import PromptPool
from sara.seeds import rollout_seeds
from sara.verifiers import Verdict

RIGHT = "<answer> 3 + 5 </answer>"
WRONG = "3 + 5 = 8 yes <answer> 3 * 5 </answer>"
NO_ANSWER = "3 + 5 = 8"
EASY = countdown_problem([3, 5], 8)
OTHER = countdown_problem([44, 19], 63)
FAULTY = Problem("faulty", "Use 3 once", {}, lambda text: Verdict.UNSCORABLE)


def draws(*rows: tuple[int, int] | tuple[int, int, int]) -> Draws:
    """(prompt, slot) or (prompt, slot, attempt) of each draw."""
    columns = zip(*((*row, 0)[:3] for row in rows), strict=True)
    return Draws(*(np.array(column) for column in columns))


def test_verdicts_become_rewards_in_the_order_of_the_draws(make_sampler):
    sampler = make_sampler([(EASY, [WRONG, RIGHT, NO_ANSWER]), (FAULTY, [RIGHT]), (OTHER, [RIGHT])])
    outcomes = sampler.draw(1, draws((1, 0), (0, 0), (2, 0), (0, 1), (0, 2)))
    # The right answer to one problem is a wrong one to another.
    assert outcomes.rewards.tolist() == [MISSING, 0, 0, 1, 0]
    assert outcomes.rewards.dtype == np.int8


def test_every_token_is_counted_the_end_token_and_unscorable_rollouts_too(make_sampler):
    sampler = make_sampler([(EASY, [RIGHT, WRONG, None]), (FAULTY, [NO_ANSWER])])
    outcomes = sampler.draw(1, draws((0, 0), (0, 1), (0, 2), (1, 0)))
    # RIGHT is 5 words, WRONG is 6 + 5, NO_ANSWER is 5; each with its end token; a failed request made none.
    assert outcomes.tokens.tolist() == [6, 12, 0, 6]
    assert outcomes.tokens.dtype == np.int64


def test_a_request_that_the_engine_failed_on_is_missing_and_never_taken(make_sampler):
    sampler = make_sampler([(EASY, [None, RIGHT])])
    assert sampler.draw(1, draws((0, 0), (0, 1))).rewards.tolist() == [MISSING, 1]
    assert [rollout.slot for rollout in sampler.take([0])] == [1]


def test_take_gives_rollouts_by_prompt_in_the_order_asked_then_by_slot(make_sampler):
    sampler = make_sampler([(EASY, [RIGHT, WRONG, NO_ANSWER]), (OTHER, [WRONG, WRONG]), (FAULTY, [RIGHT])])
    sampler.draw(1, draws((0, 2), (1, 1), (2, 0)))
    sampler.draw(1, draws((1, 0), (0, 0), (0, 1)))
    taken = sampler.take([1, 0, 2])
    assert [(rollout.prompt, rollout.slot) for rollout in taken] == [(1, 0), (1, 1), (0, 0), (0, 1), (0, 2)]
    assert [rollout.text for rollout in taken] == [WRONG, WRONG, WRONG, NO_ANSWER, RIGHT]
    assert [rollout.reward for rollout in taken] == [0, 0, 0, 0, 1]
    assert {rollout.prompt_ids for rollout in taken} == set(sampler.pool.prompt_ids[:2])


def test_take_forgets_everything_so_that_no_step_trains_on_anothers_rollouts(make_sampler):
    sampler = make_sampler([(EASY, [RIGHT] * 3), (OTHER, [WRONG] * 2)])
    sampler.draw(1, draws((0, 0), (1, 0)))
    assert [rollout.prompt for rollout in sampler.take([0])] == [0]
    assert sampler.take([0, 1]) == []  # what was not asked for is gone too
    sampler.draw(2, draws((0, 1)))
    assert [rollout.slot for rollout in sampler.take([0, 1])] == [1]


def test_a_redraw_takes_the_place_of_the_rollout_that_was_missing(make_sampler):
    verdicts = iter([Verdict.UNSCORABLE, Verdict.RIGHT])
    problem = Problem("sometimes", "Use 3 once", {}, lambda text: next(verdicts))
    sampler = make_sampler([(problem, [WRONG, RIGHT])])
    assert sampler.draw(1, draws((0, 4, 0))).rewards.tolist() == [MISSING]
    assert sampler.draw(1, draws((0, 4, 1))).rewards.tolist() == [1]
    (rollout,) = sampler.take([0])
    assert (rollout.slot, rollout.text, rollout.reward) == (4, RIGHT, 1)


def test_each_request_has_the_seed_of_its_step_prompt_slot_and_attempt(make_sampler):
    sampler = make_sampler([(EASY, [RIGHT] * 9), (OTHER, [RIGHT] * 9)], run_seed=7)
    sampler.draw(3, draws((0, 0), (1, 5), (0, 1, 2)))
    asked = sampler.engine.asked
    assert [request.seed for request in asked] == rollout_seeds(7, 3, [0, 1, 0], [0, 5, 1], [0, 0, 2]).tolist()
    assert [request.prompt_ids for request in asked] == [sampler.pool.prompt_ids[i] for i in (0, 1, 0)]
    sampler.draw(4, draws((0, 0)))
    assert asked[-1].seed != asked[0].seed


def test_a_rollout_keeps_the_ids_that_the_engine_returned_not_a_second_tokenization(make_sampler, tokenizer):
    sampler = make_sampler([(EASY, [RIGHT])])
    sampler.draw(1, draws((0, 0)))
    (rollout,) = sampler.take([0])
    assert rollout.completion.token_ids.tolist() == [*tokenizer(RIGHT)["input_ids"], tokenizer.eos_token_id]
    assert rollout.text == RIGHT  # the verifier reads no special tokens


def test_drawing_nothing_gives_nothing(make_sampler):
    sampler = make_sampler([(EASY, [])])
    empty = np.zeros(0, dtype=np.int64)
    outcomes = sampler.draw(1, Draws(empty, empty, empty))
    assert outcomes.rewards.shape == (0,) and sampler.take([]) == []


def test_a_completion_is_read_behind_the_think_that_its_prompt_opened(tokenizer, make_sampler):
    """Reasoning that was cut off holds no answer, even where it says one; a completion that ends it is judged."""
    read = []
    problem = Problem("p", "Use 3 5", {}, lambda text: read.append(text) or Verdict.RIGHT)
    sampler = make_sampler([(problem, [RIGHT, RIGHT])])
    sampler.draw(1, draws((0, 0)))
    sampler.pool.openings = ["<think>"]
    sampler.draw(1, draws((0, 1)))
    assert read == [RIGHT, "<think>" + RIGHT]
    assert EASY.verify(read[0]) is Verdict.RIGHT and EASY.verify(read[1]) is Verdict.WRONG
    assert [rollout.text for rollout in sampler.take([0])] == read


def test_a_pool_knows_which_of_its_prompts_open_the_reasoning():
    tokenizer = build_tokenizer()
    tokenizer.unk_token = "<eos>"  # it has no word for <think>
    for template, opening in (("Use <think>", "<think>"), ("Use", "")):
        tokenizer.chat_template = template
        assert PromptPool(Reader(tokenizer, 512), [EASY], 10).openings == [opening]
