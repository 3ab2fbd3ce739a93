"""The configuration of a plan: the run that is planned, and the machine that is to generate for it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt

from sara.config import AllocationConfig, NonNegativeInt, Section, SelectionConfig, StrategyName
from sara.simulation.config import TokensConfig, one_or_more
from sara.strategies import STRATEGIES


class MachineConfig(Section):
    """What generates the rollouts."""

    tokens_per_s: PositiveFloat = Field(2500.0, description="Tokens that one GPU generates in a second")
    gpus: PositiveInt = Field(1, description="GPUs that generate")


class SimulatedConfig(Section):
    """How far the figures without a closed form are simulated."""

    steps: PositiveInt = Field(60, description="Steps of each simulated run, at most those of the planned run")
    num_seeds: PositiveInt = Field(4, description="Simulated runs of each strategy")
    first_seed: NonNegativeInt = Field(0, description="Seed of the first one")


class PlanConfig(Section):
    """A run to plan."""

    source: str = Field(
        "saturated",
        min_length=1,
        description="A built-in population, a histogram of success rates (.csv, .json) or a pilot log (.jsonl)",
    )
    strategies: Annotated[tuple[StrategyName, ...], BeforeValidator(one_or_more)] = Field(
        tuple(STRATEGIES), min_length=1, description="Strategies to plan for"
    )
    steps: PositiveInt = Field(200, description="Optimizer steps of the run")
    prompts: PositiveInt | None = Field(
        None, description="Prompts in the pool; if not set, as many as a histogram counts, else 10,000"
    )
    tokens: TokensConfig = TokensConfig()
    machine: MachineConfig = MachineConfig()
    selection: SelectionConfig = SelectionConfig()
    allocation: AllocationConfig = AllocationConfig()
    simulated: SimulatedConfig = SimulatedConfig()
