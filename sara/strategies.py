"""Strategies: the named pairs of selector and allocator."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from sara.allocation import ALLOCATORS, Allocator
from sara.selection import SELECTORS, Selector


class Strategy(NamedTuple):
    """Names of a selector in `SELECTORS` and of an allocator in `ALLOCATORS`."""

    selector: str
    allocator: str


STRATEGIES: dict[str, Strategy] = {
    "uniform": Strategy("uniform", "fixed"),
    "ds": Strategy("uniform", "ds"),
    "dps": Strategy("dps", "fixed"),
    "ds+dps": Strategy("dps", "ds"),
    "sara": Strategy("uniform", "sara"),
    "sara+dps": Strategy("dps", "sara"),
}


def get_strategy(name: str) -> Strategy:
    """The strategy called `name`; ValueError with the nearest known name if there is none."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    near = get_close_matches(str(name).lower(), STRATEGIES, n=1, cutoff=0.0)[0]
    raise ValueError(f"strategy {name!r} is unknown; did you mean {near!r}? Known: {', '.join(STRATEGIES)}")


def build_strategy(
    name: str,
    *,
    num_prompts: int,
    seed: int,
    k: int,
    selector_options: Mapping[str, Any] | None = None,
    allocator_options: Mapping[str, Any] | None = None,
) -> tuple[Selector, Allocator]:
    """A fresh selector and allocator for strategy `name`.

    num_prompts, seed                   pool size P and run seed, for the selector
    k                                   group size, for the allocator
    selector_options, allocator_options further keyword arguments of the two classes

    Raises ValueError on an unknown name or on options that the classes refuse.
    """
    strategy = get_strategy(name)
    selector = SELECTORS[strategy.selector](num_prompts, seed, **(selector_options or {}))
    return selector, ALLOCATORS[strategy.allocator](k=k, **(allocator_options or {}))
