"""MLflow: what a run records, how it gets there, and how a comparison is read back.

A run writes to files in its folder and nowhere else; a thread delivers them to MLflow. So neither a killed run nor a
server that is slow, down or full loses a value or costs a second of training. Never computes a metric.
"""

import json
import logging
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sara.config import TrackingConfig
from sara.reporting.metrics_file import MetricsFile, read_records
from tasks.comparisons import load_comparison
from tasks.delivery import BackgroundDelivery
from tasks.experiments import find_or_make_experiment
from tasks.outbox import Outbox, as_entry
from tasks.stopping import Stopped
from tasks.tracking_store import StoreUnreachable, TrackingError, open_client, readable_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = [
    "Run",
    "Tracker",
    "TrackingError",
    "connect",
    "flatten",
    "hold_run",
    "is_recorded",
    "load_comparison",
    "mlflow_run_id",
    "open_run",
    "reopen_run",
]

MAX_PARAM_LENGTH = 6000  # this and the next are MLflow's limits
MAX_TAG_LENGTH = 8000
STOPPED_WAIT_S = 5.0  # for MLflow, at most, of a run that was told to stop

_ALLOWED_NAME = re.compile(r"[/\w.\- :]{1,250}")
# Two attempts at a step are the same step if these agree; times of the clock never do.
_WITNESSES = ("cumulative/rollouts", "cumulative/tokens", "reward/mean", "loss", "grad_norm", "eval/accuracy")
_log = logging.getLogger(__name__)


def require_store(tracking: TrackingConfig) -> None:
    """Raises TrackingError if MLflow does not answer, unless `tracking.when_absent` lets values wait for it."""
    try:
        connect(tracking.uri, tracking.experiment)
    except StoreUnreachable as error:
        if tracking.when_absent == "refuse":
            raise
        _log.warning("%s; what is recorded waits for it", error)


def connect(tracking_uri: str, experiment: str) -> "Tracker":
    """Checks that `tracking_uri` answers, and finds or makes the experiment.

    Raises TrackingError, within seconds, when it does not answer or cannot be used.
    """
    client = open_client(tracking_uri)
    with readable_errors(tracking_uri):
        experiment_id = find_or_make_experiment(client, experiment, tracking_uri)
    return Tracker(tracking_uri, experiment, experiment_id, client)


@dataclass(frozen=True)
class Tracker:
    """An experiment that accepts runs."""

    tracking_uri: str
    experiment: str
    experiment_id: str
    client: "MlflowClient"

    def log_folder(self, run_id: str, folder: Path, artifact_path: str) -> None:
        """Adds the files of `folder` to a run, whatever its state."""
        with readable_errors(self.tracking_uri):
            self.client.log_artifacts(run_id, str(folder), artifact_path)


@contextmanager
def open_run(
    tracking: TrackingConfig,
    folder: Path,
    name: str,
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    parent: Path | str | None = None,
) -> Iterator["Run"]:
    """A run that ends FINISHED, FAILED (an error) or KILLED (interrupted or cancelled).

    folder   where it keeps its records; if it holds a run already, that run goes on, with the parameters that it
             was started with
    params   nested ones become dotted keys
    parent   folder, or id in MLflow, of the run that this one is part of
    """
    settings = flatten(params or {})
    check_names(settings)
    run = Run(Outbox.create(folder, tracking.uri, tracking.experiment, name, parent), tracking.wait_s)
    run.begin(tags or {}, settings)
    try:
        yield run
    except BaseException as error:
        run.abort(error)
        raise
    run.finish()


@contextmanager
def hold_run(
    tracking: TrackingConfig, folder: Path, name: str, tags: Mapping[str, str], params: Mapping[str, Any]
) -> Iterator[None]:
    """A run that is RUNNING while the body works and others add to it (`reopen_run`), and ends as the body does."""
    settings = flatten(params)
    check_names(settings)
    run = Run(Outbox.create(folder, tracking.uri, tracking.experiment, name, None), tracking.wait_s)
    run.begin(tags, settings)
    run.log_dict(params, "config.json")
    run.close()
    try:
        yield
    except BaseException as error:
        Run(Outbox(folder), tracking.wait_s).abort(error)
        raise
    Run(Outbox(folder), tracking.wait_s).finish()


def mlflow_run_id(folder: Path) -> str | None:
    """MLflow's id of the run in the folder; None as long as MLflow has not been reached."""
    return Outbox(folder).cursor.run_id


def is_recorded(folder: Path, name: str, step: int) -> bool:
    """Whether the run in the folder has recorded the metric for this step, in MLflow by now or not."""
    return any(at == step and name in values for at, _, values in read_records(folder / "metrics.jsonl"))


@contextmanager
def reopen_run(folder: Path, wait_s: float) -> Iterator["Run"]:
    """The run in the folder, to add to: whether it goes on, has finished or failed is not ours to change."""
    run = Run(Outbox(folder), wait_s)
    try:
        yield run
    finally:
        run.close()


class Run:
    """An open run. What it is told is in its folder when a call returns, and in MLflow seconds later.

    A step that a killed attempt had recorded already is recorded once: its values are not written again when it is
    taken again with the same outcome.
    """

    def __init__(self, files: Outbox, wait_s: float) -> None:
        self.folder, self.key = files.folder, files.header.key
        self._wait_s = wait_s
        self._earlier, self._last_ms = _recorded(files.metrics_path)
        self._metrics, self._queue = MetricsFile(files.metrics_path), files.open_queue()
        self._delivery = BackgroundDelivery(files)

    @property
    def id(self) -> str | None:
        """MLflow's id of the run; None as long as MLflow has not been reached."""
        return mlflow_run_id(self.folder)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Records the values of one step. NaN and infinities are kept as they are.

        Raises ValueError for names that MLflow refuses, OSError if the disk is full.
        """
        check_names(metrics)
        values = self._not_recorded({name: float(value) for name, value in metrics.items()}, int(step))
        if values:
            # Rising timestamps, whatever the clock does, so that of two values for one step the later is known.
            self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
            self._metrics.append(int(step), self._last_ms, values)

    def earlier(self, name: str, step: int) -> float | None:
        """What an earlier attempt recorded for this step; None if it did not get there."""
        return self._earlier.get(step, {}).get(name)

    def log_artifact(self, path: Path, artifact_path: str | None = None) -> None:
        """Adds a file or folder, which has to stay where it is until MLflow has it."""
        self._queue.append(as_entry("artifact", path=self._located(path), to=artifact_path))

    def log_text(self, text: str, artifact_file: str) -> None:
        self._queue.append(as_entry("text", text=text, to=artifact_file))

    def log_table(self, path: Path, artifact_file: str) -> None:
        """Adds the rows of a JSONL file as a table that MLflow shows; the file has to stay where it is until then."""
        self._queue.append(as_entry("table", path=self._located(path), to=artifact_file))

    def log_dict(self, dictionary: Mapping[str, Any], artifact_file: str) -> None:
        self.log_text(json.dumps(dictionary, indent=2, default=str), artifact_file)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        shortened = {key: _shortened(str(value), MAX_TAG_LENGTH) for key, value in tags.items()}
        self._queue.append(as_entry("tags", tags=shortened))

    def log_dataset(self, name: str, digest: str, source: str, rows: int, context: str) -> None:
        """Names a data set among the run's inputs; `context` says what for, such as training."""
        self._queue.append(
            as_entry("dataset", name=name, digest=digest[:32], source=source, rows=rows, context=context)
        )

    def count_pending(self) -> int:
        """Values and other records that MLflow does not have yet."""
        return Outbox(self.folder).count_pending()

    def to_disk(self) -> None:
        """Returns once everything recorded would survive a power cut. Call it before a checkpoint is written."""
        self._metrics.to_disk()
        self._queue.to_disk()

    def begin(self, tags: Mapping[str, str], params: Mapping[str, str]) -> None:
        """Marks the run RUNNING and gives it tags and parameters."""
        self._set_status("RUNNING")
        self.set_tags(tags)
        self._queue.append(as_entry("params", params=dict(params)))

    def finish(self) -> None:
        """Marks the run FINISHED and closes it."""
        self._set_status("FINISHED")
        self.close()

    def abort(self, error: BaseException) -> None:
        """Marks the run FAILED or KILLED; a full disk here must not hide `error`."""
        try:
            self.set_tags({"sara.error": f"{type(error).__name__}: {error}"})
            self._set_status("FAILED" if isinstance(error, Exception) else "KILLED")
        except OSError as trouble:
            _log.warning("%s: could not be marked as failed: %s", self.folder, trouble)
        self.close(STOPPED_WAIT_S if isinstance(error, Stopped) else None)

    def close(self, wait_s: float | None = None) -> None:
        """Delivers the rest, or says how it can be; the run's status stays as it is."""
        self._metrics.close()
        self._queue.close()
        pending = self._delivery.close(self._wait_s if wait_s is None else min(wait_s, self._wait_s))
        if pending:
            _log.warning(
                "%d values and other records of %s wait for MLflow; `sara sync %s` delivers them",
                *(pending, self.folder, self.folder),
            )

    def _located(self, path: Path) -> str:
        return str(path.relative_to(self.folder) if path.is_relative_to(self.folder) else path.absolute())

    def _set_status(self, status: str) -> None:
        self._queue.append(as_entry("status", status=status, time_ms=time.time_ns() // 1_000_000))

    def _not_recorded(self, values: dict[str, float], step: int) -> dict[str, float]:
        """The values that an earlier attempt did not record; all of them if the step came out differently."""
        earlier = self._earlier.pop(step, {})
        again = values.keys() & earlier.keys()
        self._earlier[step] = {name: value for name, value in earlier.items() if name not in again}
        compared = again.intersection(_WITNESSES) or again
        changed = sorted(name for name in compared if not _same(values[name], earlier[name]))
        if changed:
            _log.warning("%s: step %d differs from an earlier attempt in %s", self.folder, step, ", ".join(changed))
            return values
        return {name: value for name, value in values.items() if name not in again}


def _recorded(path: Path) -> tuple[dict[int, dict[str, float]], int]:
    """The last value of each metric by step, and the latest time in ms."""
    by_step: dict[int, dict[str, float]] = {}
    latest_ms = 0
    for step, time_ms, values in read_records(path):
        by_step.setdefault(step, {}).update(values)
        latest_ms = max(latest_ms, time_ms)
    return by_step, latest_ms


def _same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted keys and text; a value too long for MLflow is cut and ends in '…'."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            is_plain = value is None or isinstance(value, (bool, int, float, list, tuple, dict))
            text = json.dumps(value, default=str) if is_plain else str(value)
            flat[f"{prefix}{key}"] = _shortened(text, MAX_PARAM_LENGTH)
    return flat


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for names of metrics or parameters that MLflow refuses."""
    refused = [name for name in names if not _ALLOWED_NAME.fullmatch(name)]
    if refused:
        raise ValueError(
            f"names {refused}: expected 1 to 250 letters, digits, spaces or any of / _ . - : "
            "(write pass_at_8, not pass@8)"
        )


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
