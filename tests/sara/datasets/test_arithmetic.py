"""Arithmetic: answers that are right by rules of their own, one answer each, and sides that never meet."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product

import pytest
import sympy

from sara.config import DataConfig
from sara.datasets import load_side
from sara.datasets.arithmetic import SUBJECTS, generate_arithmetic
from sara.datasets.base import Problem
from sara.verifiers import Verdict, verify_math

PROBLEMS = generate_arithmetic(1600, seed=3, split="train")
X = sympy.Symbol("x")


def number(latex: str) -> Fraction:
    """-\\frac{1}{2} or 3."""
    found = re.fullmatch(r"(-?)\\frac\{(\d+)\}\{(\d+)\}", latex)
    if found is None:
        return Fraction(latex)
    return (-1 if found[1] else 1) * Fraction(int(found[2]), int(found[3]))


def integers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"-?\d+", text)]


def as_sympy(expression: str) -> sympy.Expr:
    python = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"(\1/Integer(\2))", expression)
    python = python.replace(r"\cdot", "*").replace(r"\div", "/").replace("^", "**")
    return sympy.sympify(re.sub(r"(\d)([xy])", r"\1*\2", python), rational=True)


def equation(text: str) -> sympy.Expr:
    left, right = text.split("=")
    return as_sympy(left) - as_sympy(right)


def fraction(value: sympy.Expr) -> Fraction:
    return Fraction(int(sympy.numer(value)), int(sympy.denom(value)))


def inline(text: str) -> list[str]:
    return re.findall(r"\$([^$]*)\$", text)


def solved(text: str) -> Fraction:
    return fraction(sympy.solve(equation(inline(text)[1]), X)[0])


def both_solved(text: str) -> Fraction:
    equations = [equation(part) for part in inline(text) if "=" in part]
    solution = sympy.solve(equations, [X, sympy.Symbol("y")])
    return fraction(sum(solution.values()))


def recursion(text: str) -> int:
    a, b = (int(value) for value in re.findall(r"a_[12] = (\d+)", text))
    rule = re.search(r"a_\{n\+1\} = (\d*)a_n ([+-]) (\d*)a_\{n-1\}", text)
    p, q = int(rule[1] or 1), int(rule[3] or 1) * (1 if rule[2] == "+" else -1)
    for _ in range(int(re.search(r"a_\{(\d+)\}\$\?", text)[1]) - 2):
        a, b = b, p * b + q * a
    return b


def root_of(latex: str) -> sympy.Expr:
    found = re.fullmatch(r"(\d*)\\sqrt\{(\d+)\}", latex)
    return sympy.Integer(latex) if found is None else int(found[1] or 1) * sympy.sqrt(int(found[2]))


def sum_of_series(text: str) -> Fraction:
    values, last = inline(text)[0], inline(text)[1]
    return Fraction(integers(values)[0]) / (1 - number(last))


def roots(text: str) -> list[sympy.Expr]:
    return sympy.roots(sympy.Poly(equation(inline(text)[-1]), X), multiple=True)


def two_roots(text: str) -> set[sympy.Expr]:
    found = set(roots(text))
    assert len(found) == 2, text
    return found


def rolls(total: int, dice: int) -> Fraction:
    faces = list(product(range(1, 7), repeat=dice))
    return Fraction(sum(sum(roll) == total for roll in faces), len(faces))


def all_red(red: int, blue: int, draws: int) -> Fraction:
    chance = Fraction(1)
    for i in range(draws):
        chance *= Fraction(red - i, red + blue - i)
    return chance


def counted(numbers: list[int]) -> int:
    return math.prod(numbers)


RULES: dict[str, Callable[[str], object]] = {
    r"Solve for \$x\$": solved,
    "The numbers .* satisfy": both_solved,
    r"Compute \$": lambda text: fraction(as_sympy(inline(text)[0])),
    r"What is the remainder when \$\d+\$ ": lambda t: integers(t)[0] % integers(t)[1],
    "greatest common divisor": lambda t: max(d for d in range(1, 10**4) if all(n % d == 0 for n in integers(t))),
    "least common multiple": lambda t: int(sympy.ilcm(*integers(t))),
    "How many positive divisors": lambda t: int(sympy.divisor_count(integers(t)[0])),
    r"remainder when \$\d+\^": lambda t: integers(t)[0] ** integers(t)[1] % integers(t)[2],
    "written in base": lambda t: int(str(integers(t)[0]), integers(t)[1]),
    r"What is \$\d+\\%\$ of": lambda t: Fraction(integers(t)[0], 100) * integers(t)[1],
    "A quantity of .* rises": lambda t: integers(t)[0] * (1 + Fraction(integers(t)[1], 100)),
    "A quantity of .* falls": lambda t: integers(t)[0] * (1 - Fraction(integers(t)[1], 100)),
    "After a discount": lambda t: integers(t)[1] / (1 - Fraction(integers(t)[0], 100)),
    "first rises": lambda t: integers(t)[0] * (1 + Fraction(integers(t)[1], 100)) * (1 - Fraction(integers(t)[2], 100)),
    "arithmetic sequence": lambda t: integers(t)[0] + (integers(t)[-1] - 1) * (integers(t)[1] - integers(t)[0]),
    "sum of the arithmetic series": lambda t: sum(
        range(integers(t)[0], integers(t)[-1] + 1, integers(t)[1] - integers(t)[0])
    ),
    "A geometric sequence starts": lambda t: (
        integers(t)[0] * Fraction(integers(t)[1], integers(t)[0]) ** (integers(t)[2] - 1)
    ),
    "Let .a_1": recursion,
    "infinite geometric series": sum_of_series,
    "What is its perimeter": lambda t: sum(2 * side for side in integers(t)),
    "A rectangle has area": lambda t: Fraction(*integers(t)),
    "A triangle has a base": lambda t: Fraction(counted(integers(t)), 2),
    "A box has edges": lambda t: sum(
        2 * a * b for a, b in zip(integers(t), [*integers(t)[1:], integers(t)[0]], strict=True)
    ),
    "A circle has": lambda t: number(inline(t)[0]) ** 2 * sympy.pi,
    "legs of a right triangle": lambda t: sympy.sqrt(sum(side**2 for side in integers(t))),
    "How far is the point": lambda t: round(math.dist(integers(t)[:2], integers(t)[2:]), 9),
    "Somebody owns": lambda t: counted(integers(t)),
    "different books": lambda t: math.comb(integers(t)[1], integers(t)[0]) * math.factorial(integers(t)[0]),
    "committee": lambda t: int(sympy.binomial(integers(t)[1], integers(t)[0])),
    "Two fair dice": lambda t: rolls(integers(t)[0], 2),
    "Three fair dice": lambda t: rolls(integers(t)[0], 3),
    "letters of the word": lambda t: distinct_arrangements(re.search(r"word ([A-F]+)", t)[1]),
    "A bag holds": lambda t: all_red(*integers(t)),
    "What is .f": lambda t: int(as_sympy(inline(t)[0].split("=")[1]).subs(X, integers(inline(t)[1])[0])),
    "larger solution": lambda t: fraction(max(two_roots(t))),
    r"r\^2 \+ s\^2": lambda t: sympy.expand(sum(root**2 for root in roots_of_quadratic(t))),
    "smallest value": lambda t: fraction(sympy.minimum(as_sympy(inline(t)[0]), X)),
}


def roots_of_quadratic(text: str) -> list[sympy.Expr]:
    return sympy.roots(sympy.Poly(equation(next(part for part in inline(text) if "= 0" in part)), X), multiple=True)


def distinct_arrangements(word: str) -> int:
    if len(word) <= 7:
        return len(set(permutations(word)))
    return math.factorial(len(word)) // math.prod(map(math.factorial, Counter(word).values()))


def value_of(answer: str) -> object:
    if answer.endswith(r"\pi"):
        return number(answer.removesuffix(r"\pi") or "1") * sympy.pi
    return root_of(answer) if "sqrt" in answer else number(answer)


def rule_for(problem: Problem) -> str:
    matching = [pattern for pattern in RULES if re.search(pattern, problem.text)]
    assert len(matching) == 1, (problem.text, matching)
    return matching[0]


def test_every_answer_is_that_of_a_rule_of_its_own():
    used = Counter()
    for problem in PROBLEMS:
        pattern = rule_for(problem)
        used[pattern] += 1
        if used[pattern] <= 25:
            expected = RULES[pattern](problem.text)
            assert sympy.nsimplify(value_of(problem.reference["answer"]) - expected) == 0, problem
    assert set(used) == set(RULES), "a rule without a problem"


def test_every_worked_solution_ends_in_its_answer_and_is_right():
    for problem in PROBLEMS:
        solution = problem.reference["solution"]
        assert problem.verify(solution) is Verdict.RIGHT, problem
        assert solution.endswith(rf"\boxed{{{problem.reference['answer']}}}.")


def test_every_equation_of_numbers_in_a_worked_solution_holds():
    seen = 0
    for problem in PROBLEMS:
        for part in inline(problem.reference["solution"]):
            if "=" in part and not re.search(r"[a-z]", re.sub(r"\\[a-z]+|\^", "", part)):
                last = part.rpartition("=")[2].strip()
                assert verify_math(rf"\boxed{{{part}}}", last) is Verdict.RIGHT, (problem.text, part)
                seen += 1
    assert seen > 1000


def test_an_answer_is_told_from_those_of_other_problems():
    answers = [problem.reference["answer"] for problem in PROBLEMS[:400]]
    values = [value_of(answer) for answer in answers]
    for problem, value in zip(PROBLEMS[:400], values, strict=True):
        for answer, other in zip(answers[::29], values[::29], strict=True):
            expected = Verdict.RIGHT if value == other else Verdict.WRONG
            assert problem.verify(rf"\boxed{{{answer}}}") is expected, (problem.reference["answer"], answer)


def test_every_subject_and_level_has_the_same_share():
    found = Counter((problem.subject, problem.level) for problem in PROBLEMS)
    assert set(found) == {(subject, level) for subject in SUBJECTS for level in range(1, 6)}
    assert set(found.values()) == {40}


def test_training_and_held_out_problems_never_meet_whatever_the_seeds():
    train = {p.content for seed in range(3) for p in generate_arithmetic(600, seed, "train")}
    heldout = {p.content for seed in range(3) for p in generate_arithmetic(300, seed, "heldout")}
    assert len(train) > 1000 and len(heldout) > 500
    assert train.isdisjoint(heldout)


def test_problems_are_distinct_and_follow_from_the_seed():
    assert len({problem.content for problem in PROBLEMS}) == len({problem.id for problem in PROBLEMS}) == 1600
    assert generate_arithmetic(1600, seed=3, split="train") == PROBLEMS
    assert {p.id for p in generate_arithmetic(100, 4, "train")} != {p.id for p in generate_arithmetic(100, 5, "train")}


def test_subjects_and_levels_can_be_chosen():
    config = DataConfig(train="arithmetic", train_size=40, subjects=("Percent", "Fractions"), levels=(2, 3))
    problems = load_side(config, "train").problems
    assert {(p.subject, p.level) for p in problems} == {(s, n) for s in ("Percent", "Fractions") for n in (2, 3)}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"subjects": ("Percents",)}, "data.subjects: 'Percents' is unknown; expected of Counting, Fractions"),
        ({"levels": (0, 3)}, "data.levels = [0, 3]; expected [easiest, hardest] in 1..5"),
        ({"levels": (2, 6)}, "data.levels = [2, 6]; expected"),
        ({"subjects": ("Counting",), "levels": (1, 1), "train_size": 5000}, "distinct train problems were found"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(change, line):
    with pytest.raises(ValueError) as caught:
        load_side(DataConfig(train="arithmetic", **change), "train")
    assert line in str(caught.value) and "\n" not in str(caught.value)
