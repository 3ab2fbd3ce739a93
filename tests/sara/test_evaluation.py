from __future__ import annotations

from itertools import product
from math import comb
from types import SimpleNamespace

import numpy as np
import pytest

from sara.config import RunConfig
from sara.datasets.base import Problem
from sara.datasets.boxed import boxed_problem
from sara.datasets.countdown import countdown_problem
from sara.evaluation import (
    bootstrap_mean,
    evaluate,
    evaluation_sampling,
    grade,
    majority_is_right,
    paired_gain,
    pass_at_k,
)
from sara.verifiers import Verdict

RIGHT = "<answer> 3 + 5 </answer>"
WRONG = "<answer> 3 * 5 </answer>"


def problems(count: int) -> list[Problem]:
    """Distinct problems, all answered by RIGHT."""
    words = ["Use", "make", "Think", "step", "answer", "expression"]
    judge = countdown_problem([3, 5], 8).verify
    return [Problem(f"p{i}", f"{words[i]} 3 5", {}, judge) for i in range(count)]


def sampler_of(make_sampler, *answers: str | list[str | None], run_seed: int = 0):
    """A letter for each rollout: r right, w wrong, - failed."""
    texts = {"r": RIGHT, "w": WRONG, "-": None}
    scripts = [[texts[letter] for letter in letters] for letters in answers]
    return make_sampler(list(zip(problems(len(scripts)), scripts, strict=True)), run_seed)


def test_pass_at_k_agrees_with_counting_every_choice_of_rollouts():
    rows = [(n, s, k) for n in range(1, 15) for s in range(n + 1) for k in range(1, n + 1)]
    n, s, k = (np.array(column) for column in zip(*rows, strict=True))
    exact = [1 - comb(n - s, k) / comb(n, k) for n, s, k in rows]
    np.testing.assert_allclose(pass_at_k(n, s, k), exact, atol=1e-13)


def test_pass_at_k_worked_example():
    # 4 rollouts, 1 right, choose 2: the pairs without the right one are 3 of 6.
    assert pass_at_k(np.array([4]), np.array([1]), np.array([2])) == pytest.approx([0.5], abs=1e-14)


def test_pass_at_k_is_exactly_zero_without_a_success_and_one_where_every_choice_holds_one():
    n = np.arange(1, 600)
    for k in (1, 7, 512):
        has_so_many = n >= k
        assert (pass_at_k(n[has_so_many], 0 * n[has_so_many], np.full(has_so_many.sum(), k)) == 0.0).all()
    assert pass_at_k(np.array([8, 512]), np.array([5, 257]), np.array([4, 256])).tolist() == [1.0, 1.0]


def test_pass_at_k_holds_for_large_groups():
    n, s, k = 512, 3, 64
    exact = 1 - comb(n - s, k) / comb(n, k)
    assert pass_at_k(np.array([n]), np.array([s]), np.array([k])) == pytest.approx([exact], rel=1e-10)


def test_pass_at_one_is_the_success_rate():
    s = np.arange(13)
    np.testing.assert_allclose(pass_at_k(np.full(13, 12), s, np.ones(13, dtype=int)), s / 12, atol=1e-14)


def test_evaluation_worked_example(make_sampler):
    # rates 2/4, 0/4, 4/4: avg@4 = 0.5; two of three prompts have a right rollout: pass@4 = 2/3
    result = evaluate(sampler_of(make_sampler, "rwwr", "wwww", "rrrr"), k=4, bootstrap=500, seed=0)
    assert result.successes.tolist() == [2, 0, 4] and result.scored.tolist() == [4, 4, 4]
    assert result.avg_at_k.value == pytest.approx(0.5)
    assert result.pass_at_k.value == pytest.approx(2 / 3)
    assert 0.0 <= result.avg_at_k.low < 0.5 < result.avg_at_k.high <= 1.0
    assert len(result.rollouts) == 12
    metrics = result.metrics()
    assert metrics["eval/accuracy"] == pytest.approx(0.5) and metrics["eval/missing"] == 0.0
    assert metrics["eval/pass_at_k"] == pytest.approx(2 / 3)
    assert metrics["eval/tokens_mean"] == 6.0  # five words and the end token
    assert (metrics["eval/accuracy_low"], metrics["eval/accuracy_high"]) == (result.avg_at_k.low, result.avg_at_k.high)


def test_missing_rollouts_are_counted_and_never_scored_as_wrong(make_sampler):
    # rates 1/2 (two of four missing), 0/4, 3/3; all missing: left out.  avg = (1/2 + 0 + 1) / 3 = 0.5
    result = evaluate(sampler_of(make_sampler, "r--w", "wwww", "rr-r", "----"), k=4, bootstrap=200, seed=0)
    assert result.scored.tolist() == [2, 4, 3, 0] and result.successes.tolist() == [1, 0, 3, 0]
    assert result.avg_at_k.value == pytest.approx(0.5)
    assert result.pass_at_k.value == pytest.approx(2 / 3)  # among the rollouts that were scored
    assert result.metrics()["eval/missing"] == 7.0
    assert len(result.rollouts) == 9


def test_an_unscorable_verdict_is_missing_too(make_sampler):
    faulty = Problem("faulty", "make 9", {}, lambda text: Verdict.UNSCORABLE)
    sampler = make_sampler([(problems(1)[0], [RIGHT, WRONG]), (faulty, [RIGHT, RIGHT])])
    result = evaluate(sampler, k=2, bootstrap=50, seed=0)
    assert result.avg_at_k.value == pytest.approx(0.5) and result.metrics()["eval/missing"] == 2.0


def test_an_evaluation_without_any_score_is_an_error_not_a_zero(make_sampler):
    with pytest.raises(ValueError, match="none of the rollouts could be scored"):
        evaluate(sampler_of(make_sampler, "--", "--"), k=2, bootstrap=50, seed=0)


def test_every_prompt_is_drawn_k_times_with_the_same_seeds_each_time(make_sampler):
    sampler = sampler_of(make_sampler, "rw" * 3, "wr" * 3, run_seed=9)
    first = evaluate(sampler, k=3, bootstrap=100, seed=1)
    second = evaluate(sampler, k=3, bootstrap=100, seed=1)
    asked = sampler.engine.asked
    assert [request.prompt_ids for request in asked[:6]] == [sampler.pool.prompt_ids[i] for i in (0, 0, 0, 1, 1, 1)]
    assert len({request.seed for request in asked[:6]}) == 6
    assert asked[:6] == asked[6:]
    assert [rollout.slot for rollout in first.rollouts] == [0, 1, 2, 0, 1, 2] and len(second.rollouts) == 6


def test_the_same_bootstrap_seed_gives_the_same_interval_and_another_seed_another(make_sampler):
    def interval(seed: int):
        return evaluate(sampler_of(make_sampler, "rrww", "rwww", "rrrr", "wwww"), k=4, bootstrap=999, seed=seed)

    assert interval(3).metrics() == interval(3).metrics()
    values = np.random.default_rng(0).random(50)
    low = {bootstrap_mean(values, 100, np.random.default_rng(seed)).low for seed in range(5)}
    assert len(low) == 5


def test_a_bootstrap_interval_covers_the_mean_in_about_95_of_100_samples():
    # 500 samples: the deviation of the share is sqrt(.95 * .05 / 500) = 0.0097; the percentile bootstrap of 40
    # values covers a little less than it says.
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(500):
        estimate = bootstrap_mean(rng.beta(0.5, 1.0, size=40), 300, rng)
        assert estimate.low <= estimate.value <= estimate.high
        covered += estimate.low <= 1 / 3 <= estimate.high
    assert 0.90 <= covered / 500 <= 0.975


def test_a_bootstrap_interval_has_the_width_that_theory_gives():
    # Half right, half wrong, 100 prompts: the deviation of the mean is .05, the interval 2 * 1.96 * .05 = 0.196.
    values = np.repeat([0.0, 1.0], 50)
    estimate = bootstrap_mean(values, 20_000, np.random.default_rng(0))
    assert estimate.value == 0.5
    assert estimate.high - estimate.low == pytest.approx(0.196, abs=0.012)
    assert (estimate.low + estimate.high) / 2 == pytest.approx(0.5, abs=0.01)


def test_a_bootstrap_of_equal_values_has_no_width():
    estimate = bootstrap_mean(np.full(7, 0.25), 100, np.random.default_rng(0))
    assert (estimate.value, estimate.low, estimate.high) == (0.25, 0.25, 0.25)


def test_a_paired_gain_is_surer_than_its_two_scores():
    """Rates that differ widely between prompts, each raised by 0.1: the gain is 0.1 without doubt."""
    base = np.linspace(0.0, 0.9, 50)
    gain = paired_gain(base + 0.1, base, bootstrap=500, seed=0)
    assert gain.value == pytest.approx(0.1)
    assert gain.low == pytest.approx(0.1)
    assert gain.high == pytest.approx(0.1)
    alone = bootstrap_mean(base, 500, np.random.default_rng(0))
    assert alone.high - alone.low > 0.1


def test_pass_at_more_than_was_drawn_is_refused(make_sampler):
    with pytest.raises(ValueError, match="pass@3: only 2 rollouts were drawn"):
        pass_at_k(np.array([2, 4]), np.array([1, 1]), np.array([3, 3]))
    with pytest.raises(ValueError, match="pass@8: only 2 rollouts of each prompt were drawn; expected at most 2"):
        evaluate(sampler_of(make_sampler, "rw"), k=2, bootstrap=50, seed=0, further_n=(2, 8))
    with pytest.raises(ValueError, match=r"evaluation\.pass_at = 8; expected at most evaluation\.k = 4"):
        RunConfig(evaluation={"k": 4, "pass_at": (2, 8)})


def test_the_further_n_are_the_powers_of_two_below_k_unless_named():
    def further(**settings):
        return RunConfig(evaluation=settings).evaluation.further_n

    assert further(k=16) == (2, 4, 8)
    assert further(k=12) == (2, 4, 8)
    assert further(k=2) == further(k=1) == ()
    assert further(k=16, pass_at=(5, 1, 16)) == (1, 5)


def test_an_evaluation_samples_as_training_does_where_it_does_not_say():
    engine = {"temperature": 0.9, "max_new_tokens": 50}
    as_training = evaluation_sampling(RunConfig(engine=engine))
    assert (as_training.temperature, as_training.max_new_tokens) == (0.9, 50)
    own = evaluation_sampling(RunConfig(engine=engine, evaluation={"temperature": 0, "max_new_tokens": 99}))
    assert (own.temperature, own.max_new_tokens) == (0, 99)


def test_pass_at_n_worked_example(make_sampler):
    # 2 of 4 right: pairs without a right one are 1 of 6; 1 of 4 right: 3 of 6.  pass@2 = (5/6 + 1/2) / 2 = 2/3
    result = evaluate(sampler_of(make_sampler, "rrww", "rwww"), k=4, bootstrap=100, seed=0, further_n=(1, 2))
    assert result.pass_at[2].value == pytest.approx(2 / 3)
    assert result.pass_at[1].value == pytest.approx(result.avg_at_k.value) == pytest.approx(3 / 8)
    assert result.metrics()["eval/pass_at_2_low"] == result.pass_at[2].low <= 2 / 3


def alike(answer: str, other: str) -> bool:
    return answer.casefold() == other.casefold()


@pytest.mark.parametrize(
    ("rights", "wrongs", "expected"),
    [
        (0, "", 0.0),  # nobody answered
        (0, "ab", 0.0),
        (1, "", 1.0),
        (3, "ab", 1.0),
        (2, "aab", 0.5),  # two classes tie
        (1, "ab", 1 / 3),
        (2, "aabbc", 1 / 3),
        (2, "abc", 1.0),  # more wrong answers than right ones, but each alone
        (2, "aaab", 0.0),
        (2, "aAb", 0.5),  # written differently, the same
        (2, "aAaB", 0.0),
    ],
)
def test_a_majority_vote_is_among_classes_of_answers_and_ties_are_drawn(rights, wrongs, expected):
    assert majority_is_right(rights, list(wrongs), alike) == pytest.approx(expected)


def test_a_majority_vote_agrees_with_drawing_among_the_most_frequent():
    for length in range(6):
        for votes in product("rab", repeat=length):
            counts = {vote: votes.count(vote) for vote in set(votes)}
            winners = [vote for vote, count in counts.items() if count == max(counts.values())]
            expected = winners.count("r") / len(winners) if winners else 0.0
            wrongs = [vote for vote in votes if vote != "r"]
            assert majority_is_right(votes.count("r"), wrongs, alike) == pytest.approx(expected)


def graded(problems, texts, finish="stop"):
    """An evaluation of texts that each problem was answered with; None could not be scored."""
    verdicts = {Verdict.RIGHT: 1, Verdict.WRONG: 0}
    rewards, rollouts = [], []
    for i, (problem, answers) in enumerate(zip(problems, texts, strict=True)):
        rewards.append([-1 if text is None else verdicts[problem.verify(text)] for text in answers])
        for slot, text in enumerate(answers):
            completion = SimpleNamespace(token_ids=(text or "").split(), finish_reason=finish)
            rollout = SimpleNamespace(prompt=i, slot=slot, reward=rewards[-1][slot], text=text, completion=completion)
            rollouts += [rollout] if text is not None else []
    return grade(problems, np.array(rewards), rollouts, bootstrap=200, seed=0)


def boxes(*answers):
    return [None if answer is None else rf"so \boxed{{{answer}}}" if answer else "no idea" for answer in answers]


def test_votes_of_boxed_answers_leave_out_those_without_an_answer_or_a_score():
    problems = [boxed_problem(f"p{i}", "1 + 1", "2") for i in range(3)]
    texts = [boxes("2", "3", "3", "2"), boxes("2", "", "", ""), boxes("2", "3", "3", None)]
    result = graded(problems, texts)
    assert result.votes.tolist() == [0.5, 1.0, 0.0]
    assert result.maj_at_k.value == pytest.approx(0.5)
    assert result.metrics()["eval/no_answer"] == pytest.approx(3 / 11)
    assert result.metrics()["eval/missing"] == 1.0


def test_subjects_and_levels_have_the_mean_of_their_own_problems():
    kinds = [("Algebra", 1), ("Algebra", 2), ("Geometry", 2), (None, None)]
    problems = [boxed_problem(f"p{i}", "1 + 1", "2", subject, level) for i, (subject, level) in enumerate(kinds)]
    result = graded(problems, [boxes("2", "2"), boxes("2", "3"), boxes("3", "3"), boxes("2", "2")])
    subjects = {name: estimate.value for name, estimate in result.by_part["subject"].items()}
    assert subjects == {"Algebra": 0.75, "Geometry": 0.0}
    assert {name: estimate.value for name, estimate in result.by_part["level"].items()} == {"1": 1.0, "2": 0.25}
    metrics = result.metrics()
    assert metrics["eval/subject/Algebra"] == 0.75 and metrics["eval/level/2"] == 0.25
    assert metrics["eval/subject/Algebra_low"] <= 0.75 <= metrics["eval/subject/Algebra_high"]


def test_a_subjects_name_is_made_fit_for_the_records():
    problem = boxed_problem("p", "1 + 1", "2", subject="Counting & Probability (50%)")
    assert "eval/subject/Counting - Probability -50--" in graded([problem], [boxes("2")]).metrics()


def test_lengths_of_right_and_wrong_responses_and_what_was_cut_off():
    problem = boxed_problem("p", "1 + 1", "2")
    metrics = graded([problem], [[r"a b c \boxed{2}", r"\boxed{3}"]], finish="length").metrics()
    assert (metrics["eval/tokens_mean"], metrics["eval/tokens_mean_right"], metrics["eval/tokens_mean_wrong"]) == (
        2.5,
        4.0,
        1.0,
    )
    assert metrics["eval/truncated"] == 1.0
    assert "eval/tokens_mean_wrong" not in graded([problem], [boxes("2", "2")]).metrics()


def test_answers_of_a_megabyte_are_graded_like_any_other():
    problem = boxed_problem("p", "1 + 1", "2")
    long = "x" * 1_000_000
    texts = [rf"{long} \boxed{{2}}", rf"\boxed{{{long}}}", r"\boxed{" * 100_000, long]
    result = graded([problem], [texts])
    assert result.successes.tolist() == [1] and result.scored.tolist() == [4]
    assert result.votes.tolist() == [1.0]
