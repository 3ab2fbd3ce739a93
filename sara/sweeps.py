"""Sweeps: which training runs a grid or list of settings stands for, and when one of them is done.

Owns the expansion into cells and their keys. Running them is `flows`', their files are `tasks`'.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sara.code_version import code_version
from sara.config import CompareConfig, RunConfig, Section
from sara.config_file import check_key, flatten_settings, load_config, with_values

_OWN_LISTS = {"strategy": "strategies", "seed": "seeds"}
_NOT_SWEPT = ("name", "output_dir", "tracking")
_NOT_OF_THE_RESULT = {"name": True, "output_dir": True, "tracking": True, "checkpoint": True, "training": {"threads"}}
"""Settings that say where a run is kept or how fast it is, not what comes out of it."""


class Execution(Section):
    """Where the cells of a sweep run, beyond the executor's name."""

    work_pool: str = Field("sara-local", description="workpool: the Prefect work pool whose workers run the cells")
    job_variables: dict[str, Any] = Field(
        default_factory=dict, description="workpool: settings of each cell's process, container or pod"
    )
    ray_address: str | None = Field(
        None, description="ray: address of the cluster, such as ray://host:10001; if not set, one on this machine"
    )
    ray_options: dict[str, Any] = Field(
        default_factory=dict, description="ray: what a cell reserves, such as num_cpus, num_gpus, memory, resources"
    )
    poll_s: float = Field(2.0, gt=0, description="workpool: seconds between looks at the cells")


class SweepConfig(CompareConfig):
    """Every strategy and seed at every point of a grid, of a list, or of both."""

    name: str = Field("sweep", min_length=1, description="Name of the sweep and of its folder; it goes on where it was")
    grid: dict[str, Any] = Field(
        default_factory=dict,
        description='Any setting -> the values to try, every combination of them: {"allocation.k": [4, 8]}',
    )
    points: tuple[dict[str, Any], ...] = Field(
        (), description='Settings that change together: [{"allocation.k": 4, "allocation.probe": 2}, ...]'
    )
    executor: Literal["local", "workpool", "ray"] = Field(
        "local", description="In this process, on the workers of a Prefect work pool, or on a Ray cluster"
    )
    execution: Execution = Field(Execution(), description="Details of the executor")
    refresh: bool = Field(False, description="Run finished cells again")

    @field_validator("grid", mode="before")
    @classmethod
    def _dotted_grid(cls, grid: Any) -> Any:
        if not isinstance(grid, Mapping):
            return grid
        flat = flatten_settings(grid, RunConfig)
        return {key: list(value) if isinstance(value, (list, tuple)) else [value] for key, value in flat.items()}

    @field_validator("points", mode="before")
    @classmethod
    def _dotted_points(cls, points: Any) -> Any:
        points = [points] if isinstance(points, Mapping) else points
        is_list_of_tables = isinstance(points, (list, tuple)) and all(isinstance(point, Mapping) for point in points)
        return [flatten_settings(point, RunConfig) for point in points] if is_list_of_tables else points

    @model_validator(mode="after")
    def _settings_exist(self):
        for key, values in self.grid.items():
            _check_swept(key, f"grid.{key}")
            if not values:
                raise ValueError(f"grid.{key} = []; expected at least one value to try")
        for number, point in enumerate(self.points, 1):
            for key in point:
                _check_swept(key, f"points, entry {number}")
        twice = sorted({key for point in self.points for key in point} & set(self.grid))
        if twice:
            raise ValueError(f"grid.{twice[0]} = {self.grid[twice[0]]}; expected a setting that points does not set")
        return self

    def settings_of_points(self) -> list[dict[str, Any]]:
        """Dotted settings of each point: entries of `points` times the combinations of `grid`; one empty without."""
        combinations = itertools.product(*self.grid.values())
        of_grid = [dict(zip(self.grid, values, strict=True)) for values in combinations]
        return [dict(listed) | combined for listed in (self.points or ({},)) for combined in of_grid]

    def cells(self) -> list[SweepCell]:
        """All cells, by point, then as a comparison orders them. Raises ConfigError for a point that cannot be."""
        found = list(self._cells())
        labels = [cell.label for cell in found]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice:
            raise ValueError(f"sweep {self.name}: two cells are {twice!r}; expected points that differ")
        return found

    def _cells(self) -> Iterator[SweepCell]:
        base = CompareConfig(**{name: getattr(self, name) for name in CompareConfig.model_fields})
        for settings in self.settings_of_points():
            point = with_values(base, settings, f"sweep {self.name}, point {describe(settings)}")
            named = [f"{_slug(key.rsplit('.', 1)[-1])}-{_slug(_text(value))}" for key, value in settings.items()]
            for run in point.runs():
                label = "-".join([run.name, *named])
                yield SweepCell(label=label, point=settings, config=run.model_copy(update={"name": label}))


_OF_MANY_RUNS = frozenset(SweepConfig.model_fields) - frozenset(RunConfig.model_fields)


def load_run_config(
    path: Path | None, overrides: Sequence[str] = (), base: Mapping[str, Any] | None = None
) -> RunConfig:
    """One run's settings, by `load_config`; the file may be a comparison's or a sweep's.

    What such a file says of which runs it stands for, such as `strategies`, is left out: which one this is, the
    overrides say.
    """
    return load_config(RunConfig, path, overrides, base, _OF_MANY_RUNS)


class SweepCell(Section):
    """One training run of a sweep, before its data are known.

    label   unique in the sweep; a folder's name
    point   the swept settings, by dotted key
    """

    label: str
    point: dict[str, Any]
    config: RunConfig


def cell_key(config: RunConfig, data_hashes: Mapping[str, str]) -> str:
    """Digest of all that decides a run's result: its settings, the data's content and the code; 16 hex digits."""
    settings = config.model_dump(mode="json", exclude=_NOT_OF_THE_RESULT)
    return _digest({"settings": settings, "data": dict(data_hashes), "code": code_version()})


def base_key(config: RunConfig, heldout_hash: str) -> str:
    """Digest of all that decides the score of the model before training, which cells share."""
    settings = config.model_dump(mode="json", include={"model", "data", "prompt", "engine", "evaluation"})
    return _digest({"settings": settings, "data": heldout_hash, "code": code_version()})


def data_key(config: RunConfig) -> str:
    """Digest of what decides which problems are prepared: cells that agree in it share them."""
    if config.prompt.max_tokens is None:
        return _digest(config.data.model_dump(mode="json"))
    settings = config.model_dump(mode="json", include={"model", "data", "prompt"})  # they decide what is too long
    return _digest(settings)


def describe(settings: Mapping[str, Any]) -> str:
    """A point for readers: `k=8, tau_low=0.3`."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]}={_text(value)}" for key, value in settings.items()) or "without changes"


def _check_swept(key: str, where: str) -> None:
    first = key.split(".", 1)[0]
    if key in _OWN_LISTS:
        raise ValueError(f"{where}: unknown key {key}; did you mean {_OWN_LISTS[key]} = [...], outside of it?")
    if first in _NOT_SWEPT:
        raise ValueError(f"{where}: {key} cannot be swept; it says where runs are kept, which a sweep decides itself")
    check_key(key, RunConfig, where)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _slug(text: str) -> str:
    """As part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.") or "x"
