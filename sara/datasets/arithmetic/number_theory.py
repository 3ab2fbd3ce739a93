"""Number theory: remainders, common divisors and multiples, counts of divisors, powers modulo, other bases."""

from __future__ import annotations

import math
import random

from sara.datasets.arithmetic.base import Worked


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    forms = [_remainder, _common_divisor, _common_multiple, _divisor_count, _power_modulo, _base]
    return rng.choice(forms[: level + 1])(rng, level)


def _remainder(rng: random.Random, level: int) -> Worked:
    divisor = rng.randint(3, 8 * level + 5)
    number = rng.randint(divisor + 1, 10 ** (1 + level) + divisor)
    quotient, rest = divmod(number, divisor)
    text = f"What is the remainder when ${number}$ is divided by ${divisor}$?"
    return Worked(text, f"${number} = {quotient} \\cdot {divisor} + {rest}$.", str(rest))


def _common_divisor(rng: random.Random, level: int) -> Worked:
    common = rng.randint(2, 6 * level)
    a, b = (common * factor for factor in rng.sample(range(2, 6 + 6 * level), 2))
    answer = math.gcd(a, b)
    text = f"What is the greatest common divisor of ${a}$ and ${b}$?"
    factored = f"${a} = {answer} \\cdot {a // answer}$ and ${b} = {answer} \\cdot {b // answer}$"
    steps = f"{factored}, and ${a // answer}$ and ${b // answer}$ share no divisor but 1."
    return Worked(text, steps, str(answer))


def _common_multiple(rng: random.Random, level: int) -> Worked:
    numbers = rng.sample(range(4, 11 + 8 * level), 2 if level < 4 else 3)
    answer = math.lcm(*numbers)
    shown = ", ".join(f"${number}$" for number in numbers[:-1])
    text = f"What is the least common multiple of {shown} and ${numbers[-1]}$?"
    parts = ", ".join(f"${answer} = {number} \\cdot {answer // number}$" for number in numbers)
    return Worked(text, f"{parts}, and no smaller number is a multiple of them all.", str(answer))


def _divisor_count(rng: random.Random, level: int) -> Worked:
    exponents = {prime: rng.randint(1, level) for prime in rng.sample([2, 3, 5, 7, 11], 1 + level // 2)}
    number = math.prod(prime**exponent for prime, exponent in exponents.items())
    answer = math.prod(exponent + 1 for exponent in exponents.values())
    factors = " \\cdot ".join(f"{prime}^{{{exponents[prime]}}}" for prime in sorted(exponents))
    counts = " \\cdot ".join(f"({exponents[prime]} + 1)" for prime in sorted(exponents))
    text = f"How many positive divisors does ${number}$ have?"
    return Worked(text, f"${number} = {factors}$, so there are ${counts} = {answer}$.", str(answer))


def _power_modulo(rng: random.Random, level: int) -> Worked:
    base, exponent, modulus = rng.randint(2, 20), rng.randint(5, 30 * level), rng.randint(5, 9 * level)
    answer = pow(base, exponent, modulus)
    text = f"What is the remainder when ${base}^{{{exponent}}}$ is divided by ${modulus}$?"
    squares = [1 << place for place in range(exponent.bit_length())]
    left = ", ".join(f"${base}^{{{power}}} \\to {pow(base, power, modulus)}$" for power in squares)
    needed = [power for power in reversed(squares) if exponent & power]
    rests = " \\cdot ".join(str(pow(base, power, modulus)) for power in needed)
    steps = (
        f"Squaring again and again leaves, modulo ${modulus}$: {left}. With "
        f"${exponent} = {' + '.join(map(str, needed))}$, the power leaves what ${rests}$ leaves: ${answer}$."
    )
    return Worked(text, steps, str(answer))


def _base(rng: random.Random, level: int) -> Worked:
    base, number = rng.randint(2, 9), rng.randint(10, 10**level)
    digits, rest = "", number
    while rest:
        rest, digit = divmod(rest, base)
        digits = f"{digit}{digits}"
    text = f"The number ${digits}_{{{base}}}$ is written in base ${base}$. Write it in base ten."
    powers = " + ".join(
        f"{digit} \\cdot {base}^{{{len(digits) - 1 - place}}}" for place, digit in enumerate(digits) if digit != "0"
    )
    return Worked(text, f"It is ${powers} = {number}$.", str(number))
