"""Strategies: the named pairs of selector and allocator."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from sara.allocation import ALLOCATORS, Allocator, Limits
from sara.selection import SELECTORS, Selector

if TYPE_CHECKING:
    from sara.config import AllocationConfig, SelectionConfig

_SARA_OPTIONS = (
    "tau_low",
    "probe",
    "increment",
    "alpha0",
    "beta0",
    "on_commit",
    "max_false_abandon",
    "value",
    "cost",
    "audit_rate",
)


class Strategy(NamedTuple):
    """A selector in `SELECTORS` and an allocator in `ALLOCATORS`; or a class, or its place: "package.module:Class"."""

    selector: str | type[Selector]
    allocator: str | type[Allocator]


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
    make_selector, make_allocator = _member(SELECTORS, strategy.selector), _member(ALLOCATORS, strategy.allocator)
    selector = make_selector(num_prompts, seed, **(selector_options or {}))
    return selector, make_allocator(k=k, **(allocator_options or {}))


def _member(registry: Mapping[str, type], which: str | type) -> type:
    """A class by its name in the registry, by where it is, or as it is."""
    if not isinstance(which, str):
        return which
    module, colon, name = which.partition(":")
    return getattr(import_module(module), name) if colon else registry[which]


def configured_strategy(
    name: str, num_prompts: int, seed: int, allocation: AllocationConfig, selection: SelectionConfig
) -> tuple[Selector, Allocator]:
    """A fresh selector and allocator with the settings of a configuration: training and simulation run the same."""
    strategy = get_strategy(name)
    selector_options = {
        "uniform": {},
        "dps": {
            "decay": selection.decay,
            "candidate_ratio": selection.candidate_ratio,
            "groups_per_step": allocation.groups_per_step,
        },
    }
    allocator_options = {
        "fixed": {},
        "ds": {"max_gen_batches": allocation.max_gen_batches},
        "sara": {option: getattr(allocation, option) for option in _SARA_OPTIONS},
    }
    return build_strategy(
        name,
        num_prompts=num_prompts,
        seed=seed,
        k=allocation.k,
        selector_options=selector_options.get(strategy.selector),
        allocator_options=allocator_options.get(strategy.allocator),
    )


def configured_limits(allocation: AllocationConfig) -> Limits:
    """What ends a step, for every strategy alike."""
    return Limits(target=allocation.groups_per_step, budget=allocation.rollout_cap, max_rounds=allocation.max_rounds)
