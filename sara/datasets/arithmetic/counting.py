"""Counting and probability: arrangements, choices, words with repeated letters, dice and urns."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import product

from sara.datasets.arithmetic.base import Worked, latex

TIMES = r" \cdot "


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    return rng.choice([_outfits, _arrangements, _choices, _dice, _words, _urn][: level + 1])(rng, level)


def _outfits(rng: random.Random, level: int) -> Worked:
    names = rng.sample(["shirts", "hats", "coats", "scarves", "belts", "jackets"], 2 + level // 3)
    counts = [rng.randint(2, 6 + 3 * level) for _ in names]
    *most, last = (f"${count}$ {name}" for count, name in zip(counts, names, strict=True))
    shown = f"{', '.join(most)} and {last}"
    answer = math.prod(counts)
    text = f"Somebody owns {shown}. In how many ways can one of each be chosen?"
    return Worked(text, f"${TIMES.join(map(str, counts))} = {answer}$.", str(answer))


def _arrangements(rng: random.Random, level: int) -> Worked:
    n = rng.randint(4, 5 + level)
    r = rng.randint(2, min(n, 2 + level))
    answer = math.perm(n, r)
    text = f"In how many ways can ${r}$ of ${n}$ different books stand in a row?"
    factors = " \\cdot ".join(str(n - i) for i in range(r))
    return Worked(text, f"${factors} = {answer}$.", str(answer))


def _choices(rng: random.Random, level: int) -> Worked:
    n = rng.randint(5, 6 + 3 * level)
    r = rng.randint(2, min(n - 1, 2 + level))
    answer = math.comb(n, r)
    text = f"In how many ways can a committee of ${r}$ be chosen from ${n}$ people?"
    return Worked(text, f"$\\binom{{{n}}}{{{r}}} = {answer}$.", str(answer))


def _dice(rng: random.Random, level: int) -> Worked:
    dice = 2 if level < 5 else 3
    total = rng.randint(dice + 1, 6 * dice - 1)
    ways = sum(sum(faces) == total for faces in product(range(1, 7), repeat=dice))
    answer = Fraction(ways, 6**dice)
    text = f"{'Two' if dice == 2 else 'Three'} fair dice are rolled. What is the probability that the sum is ${total}$?"
    return Worked(text, f"${ways}$ of ${6**dice}$ equally likely rolls have this sum.", latex(answer))


def _words(rng: random.Random, level: int) -> Worked:
    letters = Counter({letter: rng.randint(1, 3) for letter in rng.sample("ABCDEF", 2 + level // 2)})
    word = "".join(rng.sample(sorted(letters.elements()), letters.total()))
    answer = math.factorial(len(word)) // math.prod(math.factorial(count) for count in letters.values())
    text = f"How many different arrangements do the letters of the word {word} have?"
    below = " \\cdot ".join(f"{letters[letter]}!" for letter in sorted(letters))
    return Worked(text, f"$\\frac{{{len(word)}!}}{{{below}}} = {answer}$.", str(answer))


def _urn(rng: random.Random, level: int) -> Worked:
    red, blue = rng.randint(2, 3 + 2 * level), rng.randint(2, 3 + 2 * level)
    draws = rng.randint(2, min(3, red))
    answer = Fraction(math.comb(red, draws), math.comb(red + blue, draws))
    text = (
        f"A bag holds ${red}$ red and ${blue}$ blue balls. ${draws}$ balls are drawn together at random. "
        "What is the probability that all are red?"
    )
    steps = f"$\\binom{{{red}}}{{{draws}}} / \\binom{{{red + blue}}}{{{draws}}} = {latex(answer)}$."
    return Worked(text, steps, latex(answer))
