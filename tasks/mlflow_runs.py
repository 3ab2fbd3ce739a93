"""The MLflow runs that a flow keeps going while its tasks work: what they are called, tagged and given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sara.config import CompareConfig, RunConfig
from tasks.prepare import PreparedData
from tasks.tracking import hold_run


@contextmanager
def comparison_run(config: CompareConfig, data: PreparedData, folder: Path) -> Iterator[None]:
    """The parent run of a comparison, recorded in its folder; the training runs name that folder as their parent."""
    with _hold_run(config, data, folder, {"sara.kind": "comparison"}):
        yield


@contextmanager
def evaluation_run(config: RunConfig, data: PreparedData, folder: Path) -> Iterator[None]:
    """A run that holds one evaluation and nothing else, recorded in the folder."""
    with _hold_run(config, data, folder, {"sara.kind": "evaluation"}):
        yield


@contextmanager
def _hold_run(config: RunConfig, data: PreparedData, folder: Path, tags: dict[str, str]) -> Iterator[None]:
    settings = config.model_dump(mode="json")
    with hold_run(config.tracking, folder, config.name, tags | data_tags(data), settings):
        yield


def data_tags(data: PreparedData) -> dict[str, str]:
    """Tags that say which problems a run was made with."""
    sides = {"train": data.train, "heldout": data.heldout}
    return {f"sara.{name}_hash": side.content_hash for name, side in sides.items() if side is not None}


def training_tags(config: RunConfig, data: PreparedData) -> dict[str, str]:
    """Tags by which a training run is found."""
    return {
        "sara.kind": "training",
        "sara.strategy": config.strategy,
        "sara.algorithm": config.learner.advantage,
        "sara.seed": str(config.seed),
        **data_tags(data),
    }
