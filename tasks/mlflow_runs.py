"""The MLflow runs that a flow keeps going while its tasks work: what they are called, tagged and given."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sara.code_version import code_version, git_commit
from sara.config import CompareConfig, ExperimentConfig, RunConfig
from sara.sweeps import SweepConfig
from tasks.prepare import PreparedData, data_hashes
from tasks.tracking import Run, hold_run, reopen_run


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
def sweep_run(config: SweepConfig, folder: Path) -> Iterator[None]:
    """The parent run of a sweep, recorded in its folder: a sweep that goes on does so in the run that it began in."""
    tags = {"sara.kind": "sweep", "sara.sweep": config.name, **provenance_tags()}
    with hold_run(config.tracking, folder, config.name, tags, {}):
        with reopen_run(folder, config.tracking.wait_s) as run:
            run.log_dict(config.model_dump(mode="json"), "config.json")
        yield


@contextmanager
def _hold_run(config: ExperimentConfig, data: PreparedData, folder: Path, tags: dict[str, str]) -> Iterator[None]:
    settings = config.model_dump(mode="json")
    with hold_run(config.tracking, folder, config.name, tags | data_tags(data) | provenance_tags(), settings):
        with reopen_run(folder, config.tracking.wait_s) as run:
            log_inputs(run, config, data)
        yield


def data_tags(data: PreparedData) -> dict[str, str]:
    """Tags that say which problems a run was made with, and how many were left out for what reason."""
    hashes = {f"sara.{side}_hash": content for side, content in data_hashes(data).items()}
    sides = {name: side for name, side in (("train", data.train), ("heldout", data.heldout)) if side is not None}
    sizes = {f"sara.{name}_size": str(side.size) for name, side in sides.items()}
    left_out = {
        f"sara.{name}_left_out": ", ".join(f"{reason} {count}" for reason, count in side.left_out.items())
        for name, side in sides.items()
        if side.left_out
    }
    return hashes | sizes | left_out


def log_inputs(run: Run, config: ExperimentConfig, data: PreparedData) -> None:
    """The data sets among a run's inputs, by the hash of their content."""
    for side, split, name in (
        ("training", data.train, config.data.train),
        ("evaluation", data.heldout, config.data.heldout),
    ):
        if split is not None:
            run.log_dataset(name, split.content_hash, str(split.path), split.size, side)


def provenance_tags() -> dict[str, str]:
    """Tags that say which code made a run, and where."""
    tags = {"sara.code_version": code_version(), "sara.host": socket.gethostname()}
    commit = git_commit()
    return tags | ({"mlflow.source.git.commit": commit, "sara.git_commit": commit} if commit else {})


def training_tags(config: RunConfig, data: PreparedData) -> dict[str, str]:
    """Tags by which a training run is found."""
    return {
        "sara.kind": "training",
        "sara.strategy": config.strategy,
        "sara.algorithm": config.learner.advantage,
        "sara.seed": str(config.seed),
        **data_tags(data),
        **provenance_tags(),
    }
