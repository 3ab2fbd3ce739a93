"""The MLflow runs that a flow holds open while its tasks work: what they are called, tagged and given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sara.config import CompareConfig, RunConfig
from tasks.prepare import PreparedData
from tasks.tracking import connect


@contextmanager
def comparison_run(config: CompareConfig, data: PreparedData) -> Iterator[str]:
    """The parent run of a comparison; gives its id, under which training runs are recorded."""
    with _open_run(config, data, {"sara.kind": "comparison"}) as run_id:
        yield run_id


@contextmanager
def evaluation_run(config: RunConfig, data: PreparedData) -> Iterator[str]:
    """A run that holds one evaluation and nothing else; gives its id."""
    with _open_run(config, data, {"sara.kind": "evaluation"}) as run_id:
        yield run_id


@contextmanager
def _open_run(config: RunConfig, data: PreparedData, tags: dict[str, str]) -> Iterator[str]:
    tracker = connect(config.tracking.uri, config.tracking.experiment)
    settings = config.model_dump(mode="json")
    with tracker.start_run(name=config.name, tags=tags | data_tags(data), params=settings) as run:
        run.log_dict(settings, "config.json")
        yield run.id


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
