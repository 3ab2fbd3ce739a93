from __future__ import annotations

import random
import re
from collections import Counter
from statistics import mean

import pytest

from sara.builtin.traces import MAX_TRIES, TraceRecipe, draw_trace, format_expression, format_steps
from sara.datasets.countdown import Combination, Countdown
from sara.verifiers import Verdict, verify_countdown

RECIPE = TraceRecipe(sizes={2: 1, 3: 1, 4: 1, 5: 1}, hit_rate=0.4, give_up_rate=0.3)
STEP = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")


def traces(count: int, recipe: TraceRecipe = RECIPE, seed: int = 0) -> list[tuple[Countdown, str]]:
    rng = random.Random(seed)
    drawn = []
    for _ in range(count):
        prompt, response = draw_trace(rng, recipe)
        *numbers, target = map(int, re.findall(r"\d+", prompt))
        problem = Countdown(tuple(numbers), target)
        assert problem.text == prompt
        drawn.append((problem, response))
    return drawn


def tries(response: str) -> list[tuple[list[tuple[int, str, int, int]], str]]:
    """Steps and mark of each try, read by a grammar of the test's own."""
    searched = response.split(" <answer>")[0] if not response.startswith("<answer>") else ""
    parts = re.findall(r"(.+?) (no|yes)(?: |$)", searched)
    assert "".join(f"{steps} {mark} " for steps, mark in parts).strip() == searched
    read = []
    for shown, mark in parts:
        steps = [STEP.fullmatch(step).groups() for step in shown.split(" ; ")]
        read.append(([(int(a), op, int(b), int(c)) for a, op, b, c in steps], mark))
    return read


def test_a_trace_that_hits_ends_in_a_right_answer_and_one_that_gives_up_in_none():
    outcomes = Counter()
    for problem, response in traces(400):
        marks = [mark for _, mark in tries(response)]
        has_hit = marks[-1] == "yes"
        verdict = verify_countdown(response, problem.numbers, problem.target)
        assert verdict is (Verdict.RIGHT if has_hit else Verdict.WRONG), response
        assert marks[:-1] == ["no"] * (len(marks) - 1)
        if not has_hit:
            assert response.endswith(" no <answer> none </answer>")
        assert len(marks) <= MAX_TRIES
        outcomes[has_hit] += 1
    # A next try is made with chance 0.6 * 0.7 = 0.42, so a hit is found with chance
    # 0.4 * (1 + 0.42 + 0.42**2 + 0.42**3) = 0.668: about 133 of 400 give up, deviation 9.4.
    assert 95 <= outcomes[False] <= 171


@pytest.mark.parametrize(("give_up_rate", "tries_made"), [(0.0, MAX_TRIES), (1.0, 1)])
def test_the_give_up_rate_decides_how_long_a_vain_search_lasts(give_up_rate, tries_made):
    recipe = TraceRecipe(sizes={2: 1, 3: 1}, hit_rate=0.0, give_up_rate=give_up_rate)
    assert {len(tries(response)) for _, response in traces(50, recipe)} == {tries_made}


def test_every_step_of_a_trace_is_true_and_uses_only_what_is_left():
    compute = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
    for problem, response in traces(400):
        for steps, mark in tries(response):
            values = Counter(problem.numbers)
            for left, operation, right, result in steps:
                assert (left == result * right) if operation == "/" else (compute[operation](left, right) == result)
                values.subtract([left, right])
                assert min(values.values()) >= 0, f"{response}: a value that is not there"
                values[result] += 1
            assert values.total() == 1
            assert (steps[-1][3] == problem.target) == (mark == "yes")
            assert max(step[3] for step in steps) <= RECIPE.max_intermediate


def test_traces_are_of_training_problems_inside_the_ranges_of_the_recipe():
    recipe = TraceRecipe(sizes={2: 1, 3: 3}, number_range=(2, 9), target_range=(5, 40))
    drawn = [problem for problem, _ in traces(300, recipe)]
    assert {problem.split for problem in drawn} == {"train"}
    assert {number for problem in drawn for number in problem.numbers} == set(range(2, 10))
    assert all(5 <= problem.target <= 40 and problem.target not in problem.numbers for problem in drawn)
    sizes = Counter(len(problem.numbers) for problem in drawn)
    assert set(sizes) == {2, 3} and sizes[3] > 2 * sizes[2]


def test_without_giving_up_early_failures_are_longer_than_successes():
    recipe = TraceRecipe(sizes={2: 1, 3: 1, 4: 1}, hit_rate=0.5, give_up_rate=0.0)
    lengths = {True: [], False: []}
    for _, response in traces(400, recipe):
        lengths["yes" in response.split()].append(len(response.split()))
    assert mean(lengths[False]) > 1.5 * mean(lengths[True])


def test_the_same_seed_gives_the_same_traces():
    assert traces(20, seed=3) == traces(20, seed=3)
    assert traces(20, seed=3) != traces(20, seed=4)


@pytest.mark.parametrize(
    ("steps", "shown", "expression"),
    [
        ([(3, "*", 5, 15), (15, "+", 7, 22)], "3 * 5 = 15 ; 15 + 7 = 22", "( 3 * 5 ) + 7"),
        ([(9, "-", 4, 5), (7, "-", 5, 2)], "9 - 4 = 5 ; 7 - 5 = 2", "7 - ( 9 - 4 )"),
        (
            [(1, "+", 2, 3), (8, "/", 4, 2), (3, "*", 2, 6)],
            "1 + 2 = 3 ; 8 / 4 = 2 ; 3 * 2 = 6",
            "( 1 + 2 ) * ( 8 / 4 )",
        ),
        # 8 is both a number and the result 3 + 5: each stands for itself once.
        ([(3, "+", 5, 8), (8, "*", 8, 64)], "3 + 5 = 8 ; 8 * 8 = 64", "( 3 + 5 ) * 8"),
    ],
)
def test_steps_become_one_expression_with_inner_results_in_brackets(steps, shown, expression):
    combinations = [Combination(*step) for step in steps]
    assert format_steps(combinations) == shown
    assert format_expression(combinations) == expression


def test_a_recipe_whose_problems_may_have_no_miss_is_refused():
    # 60 and 50 under a limit of 99 can only make 10: a search for a miss would never end.
    with pytest.raises(ValueError, match="max_intermediate = 99; expected at least 120"):
        TraceRecipe(sizes={2: 1}, number_range=(1, 60))
    tight = TraceRecipe(sizes={2: 1}, number_range=(1, 13), max_intermediate=26, hit_rate=0.0)
    assert all(response.endswith("none </answer>") for _, response in traces(200, tight))
