from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.datasets.countdown import (
    DATASET,
    Countdown,
    combine,
    countdown_problem,
    draw_countdown,
    generate_countdown,
    random_combinations,
)
from sara.datasets.rows import read_file
from sara.verifiers import Verdict

RANGES = {"number_range": (1, 13), "target_range": (1, 99), "max_intermediate": 99}


def generate(count: int, seed: int = 0, split: str = "train", sizes=None, **ranges) -> list[Countdown]:
    return generate_countdown(count, seed, split, sizes or {2: 1, 3: 1}, **(RANGES | ranges))


def reachable(values: tuple[int, ...], largest: int) -> set[int]:
    """Every value that the numbers can be combined to by whole steps in 0..largest: brute force."""
    if len(values) == 1:
        return set(values)
    found: set[int] = set()
    for i, j in product(range(len(values)), repeat=2):
        if i == j:
            continue
        rest = tuple(value for place, value in enumerate(values) if place not in (i, j))
        a, b = values[i], values[j]
        results = {a + b, a * b} | ({a - b} if a >= b else set()) | ({a // b} if b and a % b == 0 else set())
        for result in results:
            if result <= largest:
                found |= reachable((*rest, result), largest)
    return found


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_every_generated_problem_can_be_solved_inside_its_limits(split):
    problems = generate(90, split=split, sizes={2: 1, 3: 2}, max_intermediate=40)
    for problem in problems:
        assert problem.target in reachable(problem.numbers, 40), problem
        assert problem.target not in problem.numbers
        assert all(1 <= number <= 13 for number in problem.numbers)
        assert 1 <= problem.target <= 40


def test_the_ranges_are_used_up_to_both_their_ends():
    problems = generate(90, sizes={3: 1}, number_range=(2, 5), target_range=(7, 30))
    numbers = {number for problem in problems for number in problem.numbers}
    targets = {problem.target for problem in problems}
    assert numbers == {2, 3, 4, 5}
    assert targets <= set(range(7, 31)) and {7, 30} <= targets


def test_the_same_seed_gives_the_same_problems_and_another_seed_others():
    assert generate(60, seed=5) == generate(60, seed=5)
    first, second = set(generate(60, seed=5)), set(generate(60, seed=6))
    assert len(first & second) < 30


def test_the_problems_of_a_seed_never_change():
    # Runs are compared across versions: the generator's stream is part of the contract.
    shown = "".join(f"{p.id}\n" for p in generate(200, sizes={2: 1, 3: 1, 4: 1}))
    assert hashlib.sha256(shown.encode()).hexdigest()[:16] == "3f679bb9ac879afc"


def test_problems_are_distinct_whatever_the_order_of_their_numbers():
    problems = generate(180, sizes={2: 1})
    assert len({(tuple(sorted(p.numbers)), p.target) for p in problems}) == 180


def test_training_and_held_out_problems_never_meet_whatever_the_seeds():
    train = {p.canonical for seed in range(4) for p in generate(150, seed=seed)}
    heldout = {p.canonical for seed in range(4) for p in generate(80, seed=seed, split="heldout")}
    assert len(train) > 200 and len(heldout) > 80
    assert train.isdisjoint(heldout)


def test_one_problem_in_five_is_held_out():
    # The standard deviation of the share is sqrt(.2 * .8 / 4000) = 0.0063: four of them are 0.025.
    problems = [Countdown((a, b, 7), target) for a in range(20) for b in range(20) for target in range(10)]
    share = sum(problem.split == "heldout" for problem in problems) / len(problems)
    assert share == pytest.approx(0.2, abs=0.025)


@given(st.lists(st.integers(0, 99), min_size=2, max_size=5), st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_side_of_a_problem_does_not_depend_on_the_order_of_its_numbers(numbers, target, rng):
    shuffled = rng.sample(numbers, len(numbers))
    assert Countdown(tuple(numbers), target).split == Countdown(tuple(shuffled), target).split


@pytest.mark.parametrize(
    ("count", "sizes", "expected"),
    [
        (100, {2: 1, 3: 1, 4: 2}, {2: 25, 3: 25, 4: 50}),
        (10, {2: 1, 3: 1, 4: 1}, {2: 4, 3: 3, 4: 3}),  # 10/3 each: the one left goes to the smallest size
        (7, {2: 0.5, 3: 0.3, 4: 0.2}, {2: 4, 3: 2, 4: 1}),  # 3.5, 2.1, 1.4: the one left to the largest remainder
        (2, {2: 1, 3: 1, 4: 1}, {2: 1, 3: 1}),
        (50, {3: 0.1}, {3: 50}),
    ],
)
def test_each_size_has_its_exact_share(count, sizes, expected):
    assert Counter(len(problem.numbers) for problem in generate(count, sizes=sizes)) == expected


def test_sizes_stand_in_a_mixed_order():
    sizes = [len(problem.numbers) for problem in generate(100)]
    assert 2 in sizes[:10] and 3 in sizes[:10]


def test_asking_for_more_problems_than_exist_names_how_many_there_are():
    # Numbers 1..2 of size 2: {1,1} makes 2; {1,2} makes 3; {2,2} makes 4 (and 1, 0 out of range).
    with pytest.raises(ValueError, match=r"only \d distinct train problems of 2 numbers .*; expected 50"):
        generate(50, sizes={2: 1}, number_range=(1, 2), target_range=(2, 99))
    with pytest.raises(ValueError, match="only 0 distinct heldout problems of 3 numbers"):
        generate(1, split="heldout", sizes={3: 1}, target_range=(98, 99), max_intermediate=20)


@given(st.integers(0, 50), st.sampled_from("+-*/"), st.integers(0, 50))
def test_a_step_is_exact_whole_and_not_negative(left, operation, right):
    result = combine(left, operation, right)
    if operation == "/":
        assert (result is None) == (right == 0 or left % right != 0)
        assert result is None or result * right == left
    elif operation == "-":
        assert result == (left - right if left >= right else None)
    else:
        assert result == {"+": left + right, "*": left * right}[operation]


@given(st.lists(st.integers(0, 20), min_size=2, max_size=5), st.integers(5, 60), st.randoms(use_true_random=False))
def test_random_combinations_use_up_the_numbers_in_true_steps(numbers, largest, rng):
    steps = random_combinations(rng, numbers, largest)
    if steps is None:
        return
    values = Counter(numbers)
    for left, operation, right, result in steps:
        assert result == combine(left, operation, right) and 0 <= result <= largest
        values[left] -= 1
        values[right] -= 1
        assert min(values.values()) >= 0, "a step used a value that was not there"
        values[result] += 1
    assert values.total() == 1 and values[steps[-1].result] == 1


def test_a_draw_has_the_solution_it_was_made_from():
    rng = random.Random(0)
    draws = [draw_countdown(rng, 3, (1, 13), (1, 99), 99) for _ in range(300)]
    drawn = [draw for draw in draws if draw is not None]
    assert 100 < len(drawn) < 300
    for problem, solution in drawn:
        assert solution[-1].result == problem.target and len(solution) == 2


def test_the_prompt_names_every_number_the_target_and_the_form_of_an_answer():
    problem = countdown_problem([3, 5, 7], 22)
    assert problem.text == (
        "Use 3, 5, 7 once each with + - * / and ( ) to make 22. "
        "Think step by step, then answer as <answer> expression </answer>."
    )
    assert problem.id == "countdown/3-5-7=22"
    assert problem.reference == {"numbers": [3, 5, 7], "target": 22}


def test_a_problem_judges_by_its_own_numbers_and_target():
    problem = countdown_problem([3, 5, 7], 22)
    assert problem.verify("<answer>3*5+7</answer>") is Verdict.RIGHT
    assert problem.verify("<answer>3*5-7</answer>") is Verdict.WRONG
    assert countdown_problem([3, 5, 7], 8).verify("<answer>3*5-7</answer>") is Verdict.RIGHT


def read_countdown_jsonl(path, columns=None):
    return [DATASET.read(row, place) for place, row in read_file(path, DATASET.fields, columns or {})]


def write(path, *lines: str | bytes):
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_jsonl_rows_become_problems_in_order(tmp_path):
    path = write(
        tmp_path / "problems.jsonl",
        '{"numbers": [44, 19, 35], "target": 98, "id": "first", "source": "kept out"}',
        "",
        '{"target": 8, "numbers": [3, 5]}',
    )
    first, second = read_countdown_jsonl(path)
    assert (first.id, first.reference) == ("first", {"numbers": [44, 19, 35], "target": 98})
    assert (second.id, second.reference) == ("countdown/3-5=8", {"numbers": [3, 5], "target": 8})
    assert second.verify("<answer>3+5</answer>") is Verdict.RIGHT


def test_jsonl_tells_a_line_from_a_line_separator_inside_a_text(tmp_path):
    path = write(tmp_path / "problems.jsonl", '{"numbers": [3, 5], "target": 8, "id": "a\u2028b"}')
    assert [problem.id for problem in read_countdown_jsonl(path)] == ["a\u2028b"]


@pytest.mark.parametrize(
    "row",
    [
        "not json",
        "[1, 2]",
        "null",
        "7",
        '{"numbers": [3, 5]}',
        '{"target": 8}',
        '{"numbers": 3, "target": 8}',
        '{"numbers": "35", "target": 8}',
        '{"numbers": [3], "target": 3}',
        '{"numbers": [], "target": 3}',
        '{"numbers": [3, -5], "target": 8}',
        '{"numbers": [3, 5.0], "target": 8}',
        '{"numbers": [3, true], "target": 4}',
        '{"numbers": [3, "5"], "target": 8}',
        '{"numbers": [3, 5], "target": null}',
        '{"numbers": [3, 5], "target": -2}',
        '{"numbers": [3, 5], "target": "8"}',
        '{"numbers": [3, 5], "target": 8, "id": 7}',
        '{"numbers": [3, 5], "target": 8, "id": ""}',
        "[" * 100_000,
        b'{"numbers": [3, 5], "target": 8, "id": "\xff"}',
    ],
)
def test_a_faulty_jsonl_row_is_named_with_its_file_and_line(tmp_path, row):
    path = write(tmp_path / "problems.jsonl", '{"numbers": [3, 5], "target": 8}', "", row)
    with pytest.raises(ValueError, match=r"problems\.jsonl:3: ") as error:
        read_countdown_jsonl(path)
    assert len(str(error.value).splitlines()) == 1


def test_a_missing_or_empty_jsonl_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.jsonl: no such data file"):
        read_countdown_jsonl(tmp_path / "nowhere.jsonl")
    with pytest.raises(ValueError, match="no such data file"):
        read_countdown_jsonl(tmp_path)
    with pytest.raises(ValueError, match=r"empty\.jsonl: the data file is empty"):
        read_countdown_jsonl(write(tmp_path / "empty.jsonl", "", "  "))


def test_a_row_of_the_generator_reads_back_as_the_same_problem(tmp_path):
    problems = generate(20)
    rows = [json.dumps({"numbers": list(p.numbers), "target": p.target}) for p in problems]
    read = read_countdown_jsonl(write(tmp_path / "problems.jsonl", *rows))
    assert read == [countdown_problem(*problem) for problem in problems]
