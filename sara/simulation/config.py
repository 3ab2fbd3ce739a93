"""The configuration of a simulation: a population, how it learns, and which strategies and settings to try.

Owns the fields and the grid. Selection and allocation are the sections that training reads, so a setting means the
same in both.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FiniteFloat,
    PlainValidator,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from sara.config import AUTO, AllocationConfig, NonNegativeFloat, NonNegativeInt, Schedule, Section, SelectionConfig
from sara.simulation.mixtures import POPULATIONS, RateMixture
from sara.simulation.oracle import ORACLE
from sara.strategies import STRATEGIES


def _is_simulated(name: str) -> str:
    if name != ORACLE and name not in STRATEGIES:
        near = get_close_matches(name.lower(), (*STRATEGIES, ORACLE), n=1, cutoff=0.0)[0]
        raise ValueError(f"expected one of {', '.join(STRATEGIES)}, {ORACLE}; did you mean {near!r}?")
    return name


def one_or_more(value: Any) -> Any:
    """A single value stands for a list of one."""
    return value if value is None or isinstance(value, (list, tuple)) else (value,)


def _as_number(value: Any) -> Any:
    """Lists on the command line hold texts."""
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return value


def _as_pace(value: Any) -> Any:
    number = _as_number(value)
    is_count = isinstance(number, int) and not isinstance(number, bool) and number >= 1
    if not (is_count or (isinstance(number, float) and 0 < number < 1) or number == AUTO):
        raise ValueError("expected a whole number from 1 up, a share of k in (0, 1), or 'auto'")
    return number


def _as_threshold(value: Any) -> Any:
    number = _as_number(value)
    if not (number == AUTO or (isinstance(number, float) and 0 < number < 1)):
        raise ValueError("expected a number in (0, 1), or 'auto'")
    return number


SimulatedStrategy = Annotated[str, AfterValidator(_is_simulated)]
GroupSize = Annotated[int, Field(ge=2, le=1024)]
Pace = Annotated[int | float | str, PlainValidator(_as_pace)]
Threshold = Annotated[float | str, PlainValidator(_as_threshold)]
Prior = tuple[PositiveFloat, PositiveFloat]


class ComponentConfig(Section):
    """A part of a population: a Beta distribution of success rates, or a point mass at one rate."""

    weight: NonNegativeFloat = Field(1.0, description="Its share, relative to the other components' weights")
    alpha: PositiveFloat | None = Field(None, description="Beta(alpha, beta)")
    beta: PositiveFloat | None = Field(None, description="Beta(alpha, beta)")
    rate: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="Point mass at this success rate")


class PopulationConfig(Section):
    """The prompts: where their success rates start, and how they rise as the policy learns."""

    name: str = Field("saturated", description=f"Built-in population, one of {', '.join(POPULATIONS)}")
    components: Annotated[tuple[ComponentConfig, ...], Field(min_length=1)] | None = Field(
        None, description="Mixture to use instead of a built-in population"
    )
    prompts: PositiveInt = Field(10_000, description="Prompts in the pool")
    drift: FiniteFloat = Field(0.0, description="Rise of every prompt's log-odds of success in the first step")
    gain: FiniteFloat = Field(0.0, description="Further rise of a prompt's log-odds each time it is trained on")
    fade_steps: PositiveFloat | None = Field(
        None, description="Steps in which the drift falls to 1/e; never if not set"
    )

    @model_validator(mode="after")
    def _is_known(self):
        self.mixture()
        return self

    @property
    def is_static(self) -> bool:
        return not (self.drift or self.gain)

    def mixture(self) -> RateMixture:
        """The distribution of success rates before the first step."""
        if self.components:
            return RateMixture.of([component.model_dump(exclude_none=True) for component in self.components])
        if self.name not in POPULATIONS:
            raise ValueError(f"population.name = {self.name!r}; expected one of {', '.join(POPULATIONS)}")
        return POPULATIONS[self.name]


class TokensConfig(Section):
    """Mean lengths of rollouts."""

    right: Annotated[float, Field(ge=1)] = Field(600.0, description="Mean tokens of a right rollout")
    wrong: Annotated[float, Field(ge=1)] = Field(1000.0, description="Mean tokens of a wrong rollout")
    tail: NonNegativeFloat = Field(
        0.0, description="0: lengths from half to 1.5 times the mean; else log-normal ones, this the sigma"
    )


class GridConfig(Section):
    """Settings to try in every combination; one that is not set keeps its value in `allocation`."""

    k: Annotated[tuple[GroupSize, ...], BeforeValidator(one_or_more)] | None = Field(None, description="Group sizes")
    tau_low: Annotated[tuple[Threshold, ...], BeforeValidator(one_or_more)] | None = Field(
        None, description="SARA: thresholds"
    )
    probe: Annotated[tuple[Pace, ...], BeforeValidator(one_or_more)] | None = Field(
        None, description="SARA: rollouts in a prompt's first round; below 1, a share of k"
    )
    increment: Annotated[tuple[Pace, ...], BeforeValidator(one_or_more)] | None = Field(
        None, description="SARA: rollouts in a prompt's later rounds; below 1, a share of k"
    )
    prior: tuple[Prior, ...] | None = Field(None, description="SARA: priors [alpha0, beta0]")
    schedule: Annotated[tuple[Schedule, ...], BeforeValidator(one_or_more)] | None = Field(
        None, description="Schedules, 'rounds' and 'stream'"
    )

    def varied(self) -> list[str]:
        """Names of the settings with more than one value."""
        return [name for name in type(self).model_fields if len(getattr(self, name) or ()) > 1]


class SimulateConfig(Section):
    """A simulation: every strategy with every setting, over the same populations."""

    name: str = Field("simulation", min_length=1, description="Name of the simulation")
    strategies: Annotated[tuple[SimulatedStrategy, ...], BeforeValidator(one_or_more)] = Field(
        (*STRATEGIES, ORACLE), min_length=1, description=f"Of {', '.join(STRATEGIES)} and {ORACLE}"
    )
    steps: PositiveInt = Field(100, description="Steps of each run")
    num_seeds: PositiveInt = Field(8, description="Runs of each strategy and setting")
    first_seed: NonNegativeInt = Field(0, description="Seed of the first run; the others follow")
    places: PositiveInt | None = Field(
        None, description="Rollouts decoded at a time; if set, how long steps take is told, in decode steps"
    )
    population: PopulationConfig = PopulationConfig()
    tokens: TokensConfig = TokensConfig()
    selection: SelectionConfig = SelectionConfig()
    allocation: AllocationConfig = AllocationConfig()
    grid: GridConfig = GridConfig()

    @model_validator(mode="after")
    def _grid_fits(self):
        if not self.settings():
            raise ValueError("grid: every probe is larger than every k; expected at least one setting with probe <= k")
        return self

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def settings(self) -> list[AllocationConfig]:
        """The allocation of every combination in the grid whose probe fits in a group, k varying slowest."""
        own, grid = self.allocation, self.grid
        found = [
            _allocation(own, k, tau_low, probe, increment, prior, schedule)
            for k, tau_low, probe, increment, prior, schedule in product(
                grid.k or (own.k,),
                grid.tau_low or (own.tau_low,),
                grid.probe or (own.probe,),
                grid.increment or (own.increment,),
                grid.prior or ((own.alpha0, own.beta0),),
                grid.schedule or (own.schedule,),
            )
            if not _exceeds(probe, k)
        ]
        return list(dict.fromkeys(found))

    def num_left_out(self) -> int:
        """Combinations of the grid with a probe larger than k."""
        grid = self.grid
        pairs = product(grid.k or (self.allocation.k,), grid.probe or (self.allocation.probe,))
        others = [len(values or (0,)) for values in (grid.tau_low, grid.increment, grid.prior, grid.schedule)]
        return sum(_exceeds(probe, k) for k, probe in pairs) * prod(others)


def _allocation(
    own: AllocationConfig, k: int, tau_low: float | str, probe: Any, increment: Any, prior: Prior, schedule: Schedule
) -> AllocationConfig:
    changed = {
        "k": k,
        "tau_low": tau_low,
        "probe": _in_rollouts(probe, k),
        "increment": _in_rollouts(increment, k),
        "alpha0": prior[0],
        "beta0": prior[1],
        "schedule": schedule,
    }
    try:
        return AllocationConfig(**own.model_dump() | changed)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"grid: {name} = {first['input']!r}; {first['msg'].removeprefix('Value error, ')}") from None


def _in_rollouts(pace: int | float | str, k: int) -> int | str:
    """A pace below 1 is a share of the group."""
    return max(1, round(pace * k)) if isinstance(pace, float) else pace


def _exceeds(probe: int | float | str, k: int) -> bool:
    return isinstance(probe, int) and probe > k
