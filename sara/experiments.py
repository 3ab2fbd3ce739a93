"""The paper's experiments: what each table and ablation trains, as sweeps over a preset.

Owns the list. A scale says with which model: the paper's on a GPU, or the built-in one on a laptop, where the
sizes are smaller and the questions are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sara.config import Section, Seed, TrackingConfig, _are_distinct, _one_or_more
from sara.config_file import ConfigError, check_key, flatten_settings, load_config, with_values
from sara.sweeps import Execution, SweepConfig

_ALL = ("uniform", "ds", "dps", "sara", "sara+dps")
_PRIORS = tuple({"allocation.alpha0": a, "allocation.beta0": b} for a, b in ((1, 1), (0.5, 0.5), (0.25, 0.75), (1, 3)))
_PACE = {"allocation.probe": "auto", "allocation.increment": "auto"}  # up to where a group of that size may stop


@dataclass(frozen=True)
class Experiment:
    """One table: its sweep over a preset, and what the paper says that it shows."""

    title: str
    claim: str
    preset: str
    strategies: tuple[str, ...]
    algorithms: tuple[str, ...] = ()
    grid: dict[str, list[Any]] = field(default_factory=dict)
    points: tuple[dict[str, Any], ...] = ()


_MATH, _COUNTDOWN = "math-r1-distill-1.5b.toml", "countdown-qwen2.5-3b.toml"
_SMALL = "demo.toml"

EXPERIMENTS: dict[str, Experiment] = {
    "math": Experiment(
        "MATH with R1-Distill-Qwen-1.5B, evaluated on AIME24",
        "SARA matches DS's accuracy with about 22% fewer rollouts; SARA + DPS is best with about 67% fewer",
        _MATH,
        _ALL,
    ),
    "countdown": Experiment(
        "Countdown with Qwen2.5-3B",
        "the same on a planning task",
        _COUNTDOWN,
        _ALL,
    ),
    "group-size": Experiment(
        "Ablation of the group size k",
        "savings grow with k",
        _COUNTDOWN,
        ("ds", "sara", "sara+dps"),
        points=tuple({"allocation.k": k, **_PACE} for k in (4, 8, 16, 32)),
    ),
    "threshold": Experiment(
        "Ablation of the abandonment threshold tau_low",
        "a higher threshold costs fewer rollouts and gives up more prompts that would have taught",
        _COUNTDOWN,
        ("sara", "sara+dps"),
        grid={"allocation.tau_low": [0.3, 0.4, 0.5, 0.6, 0.7, "auto"]},
    ),
    "prior": Experiment(
        "Ablation of the prior over success rates",
        "the uniform prior is good enough",
        _COUNTDOWN,
        ("sara", "sara+dps"),
        points=_PRIORS,
    ),
    "algorithms": Experiment(
        "SARA under other RL algorithms",
        "SARA helps PPO, GRPO, RLOO and REINFORCE++ alike",
        _COUNTDOWN,
        ("uniform", "sara"),
        algorithms=("grpo", "rloo", "reinforce++", "ppo"),
    ),
}

TableName = Literal["math", "countdown", "group-size", "threshold", "prior", "algorithms"]


class ReproduceConfig(Section):
    """Which of the paper's tables to make, with what, and where."""

    tables: Annotated[tuple[TableName, ...], BeforeValidator(_one_or_more), AfterValidator(_are_distinct)] = Field(
        tuple(EXPERIMENTS), min_length=1, description="Tables and ablations to make"
    )
    scale: Literal["paper", "small"] = Field(
        "paper", description="The paper's models and sizes (a GPU, days), or the built-in model (a laptop, hours)"
    )
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_one_or_more), AfterValidator(_are_distinct)] = Field(
        (0, 1, 2), min_length=1, description="Seeds to train each strategy with"
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description='Settings that win over the presets: {"training.steps": 20}'
    )
    executor: Literal["local", "workpool", "ray"] = Field("local", description="Where the cells run, as in a sweep")
    execution: Execution = Field(Execution(), description="Details of the executor")
    refresh: bool = Field(False, description="Run finished cells again")
    output_dir: Path = Field(Path("outputs"), description="Folder in which each table's folder is made")
    tracking: TrackingConfig = TrackingConfig()

    def sweeps(self) -> dict[str, SweepConfig]:
        """The sweep behind each table. Raises ConfigError for settings that do not fit."""
        return {name: self._sweep(name, EXPERIMENTS[name]) for name in self.tables}

    def _sweep(self, name: str, experiment: Experiment) -> SweepConfig:
        preset = experiment.preset if self.scale == "paper" else _SMALL
        base = load_config(SweepConfig, preset_path(preset))
        settings = flatten_settings(self.settings, SweepConfig)
        for key in settings:
            check_key(key, SweepConfig, "settings")
        places = {key: getattr(self, key) for key in ("seeds", "executor", "execution", "refresh", "output_dir")}
        changes = {
            "name": f"{self.scale}-{name}",
            "strategies": experiment.strategies,
            "algorithms": experiment.algorithms,
            "points": experiment.points,
            "grid": experiment.grid,
            "tracking": self.tracking,
            **places,
            **settings,
        }
        return with_values(base, changes, f"table {name}")


def preset_path(name: str) -> Path:
    """A preset of the repository, or of the folder `configs` below the working directory."""
    places = (Path("configs") / name, Path(__file__).resolve().parents[1] / "configs" / name)
    for path in places:
        if path.exists():
            return path
    raise ConfigError(f"{places[0]}: no such preset; work in a checkout of the repository")
