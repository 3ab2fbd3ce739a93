"""Geometry: rectangles, right triangles, circles in terms of pi, boxes, and points in the plane."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from sara.datasets.arithmetic.base import Worked, latex


def draw(rng: random.Random, level: int) -> Worked:
    """One of the forms that the level has."""
    return rng.choice([_rectangle, _triangle, _box, _circle, _hypotenuse, _distance][: level + 1])(rng, level)


def _rectangle(rng: random.Random, level: int) -> Worked:
    a, b = rng.randint(2, 8 + 12 * level), rng.randint(2, 8 + 12 * level)
    if rng.random() < 0.5:
        text = f"A rectangle has sides of length ${a}$ and ${b}$. What is its perimeter?"
        return Worked(text, f"$2 \\cdot ({a} + {b}) = {2 * (a + b)}$.", str(2 * (a + b)))
    text = f"A rectangle has area ${a * b}$ and one side of length ${a}$. How long is the other side?"
    return Worked(text, f"${a * b} / {a} = {b}$.", str(b))


def _triangle(rng: random.Random, level: int) -> Worked:
    base, height = rng.randint(3, 12 * level), rng.randint(3, 12 * level)
    area = Fraction(base * height, 2)
    text = f"A triangle has a base of length ${base}$, and the height on it is ${height}$. What is its area?"
    return Worked(text, f"$\\frac{{1}}{{2}} \\cdot {base} \\cdot {height} = {latex(area)}$.", latex(area))


def _box(rng: random.Random, level: int) -> Worked:
    a, b, c = (rng.randint(2, 4 * level) for _ in range(3))
    surface = 2 * (a * b + b * c + c * a)
    text = f"A box has edges of length ${a}$, ${b}$ and ${c}$. What is its surface area?"
    return Worked(text, f"$2 \\cdot ({a * b} + {b * c} + {c * a}) = {surface}$.", str(surface))


def _circle(rng: random.Random, level: int) -> Worked:
    radius = Fraction(rng.randint(3, 9 * level), rng.choice([1, 1, 2]))
    area = _in_pi(radius**2)
    text = f"A circle has radius ${latex(radius)}$. What is its area, in terms of $\\pi$?"
    return Worked(text, f"$\\pi r^2 = {area}$.", area)


def _in_pi(factor: Fraction) -> str:
    return r"\pi" if factor == 1 else rf"{latex(factor)}\pi"


def _hypotenuse(rng: random.Random, level: int) -> Worked:
    a, b = rng.randint(2, 6 * level), rng.randint(2, 6 * level)
    length = _root(a * a + b * b)
    text = f"The legs of a right triangle are ${a}$ and ${b}$ long. How long is its hypotenuse, in simplest form?"
    return Worked(text, f"$\\sqrt{{{a}^2 + {b}^2}} = \\sqrt{{{a * a + b * b}}} = {length}$.", length)


def _root(number: int) -> str:
    """The square root of a positive integer with all squares taken out."""
    outside = max(factor for factor in range(1, math.isqrt(number) + 1) if number % factor**2 == 0)
    inside = number // outside**2
    if inside == 1:
        return str(outside)
    return rf"\sqrt{{{inside}}}" if outside == 1 else rf"{outside}\sqrt{{{inside}}}"


def _distance(rng: random.Random, level: int) -> Worked:
    x1, y1 = rng.randint(-5 * level, 5 * level), rng.randint(-5 * level, 5 * level)
    a, b, _ = rng.choice([(3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29)])
    scale = rng.randint(1, level)
    dx, dy = rng.sample([a * scale, b * scale], 2)
    x2, y2 = x1 + rng.choice([-1, 1]) * dx, y1 + rng.choice([-1, 1]) * dy
    distance = math.isqrt(dx * dx + dy * dy)
    text = f"How far is the point $({x1}, {y1})$ from the point $({x2}, {y2})$?"
    return Worked(text, f"$\\sqrt{{{dx}^2 + {dy}^2}} = {distance}$.", str(distance))
