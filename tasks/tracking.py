"""MLflow: where runs are kept, how their numbers get there, and how a comparison is read back.

Every metric goes to a local metrics.jsonl first and to MLflow in batches, so that neither a killed
run nor a server that went away loses a value. Never computes one.
"""

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sara.reporting.metrics_file import MetricsFile, read_records
from tasks.comparisons import histories, load_comparison
from tasks.tracking_store import TrackingError, open_client, readable_errors, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

__all__ = ["Run", "Tracker", "TrackingError", "connect", "flatten", "load_comparison"]

FLUSH_METRICS = 500  # buffered values that make a batch worth sending
FLUSH_SECONDS = 10.0
MAX_BATCH_METRICS = 1000  # this and the next three are MLflow's limits
MAX_BATCH_PARAMS = 100
MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 8000

_ALLOWED_NAME = re.compile(r"[/\w.\- :]{1,250}")
_log = logging.getLogger(__name__)


def connect(tracking_uri: str, experiment: str) -> "Tracker":
    """Checks that `tracking_uri` answers, and finds or makes the experiment.

    Raises TrackingError, within seconds, when it does not answer or cannot be used.
    """
    client = open_client(tracking_uri)
    with readable_errors(tracking_uri):
        experiment_id = _find_or_make_experiment(client, experiment, tracking_uri)
    return Tracker(tracking_uri, experiment, experiment_id, client)


@dataclass(frozen=True)
class Tracker:
    """An experiment that accepts runs."""

    tracking_uri: str
    experiment: str
    experiment_id: str
    client: "MlflowClient"

    @contextmanager
    def start_run(
        self,
        name: str,
        tags: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        parent_run_id: str | None = None,
        *,
        run_id: str | None = None,
        metrics_path: Path | None = None,
    ) -> Iterator["Run"]:
        """A run that ends FINISHED, FAILED (an error) or KILLED (interrupted or cancelled).

        Nested `params` become dotted keys. `run_id` resumes a run: it keeps the parameters it was
        started with, and is given what `metrics_path` holds and MLflow lacks.
        """
        settings = flatten(params or {})
        check_names(settings)
        with readable_errors(self.tracking_uri):
            is_resumed = run_id is not None
            run_id = run_id or self._create(name, parent_run_id)
            run = Run(self.client, run_id, self.tracking_uri, metrics_path, is_resumed=is_resumed)
            self.client.update_run(run_id, status="RUNNING")
            run.set_tags(tags or {})
            self._log_params(run_id, settings)
        try:
            yield run
        except BaseException as error:
            run.abort(error)
            raise
        run.finish()

    @contextmanager
    def attach(self, run_id: str, metrics_path: Path | None = None) -> Iterator["Run"]:
        """An existing run to add to: whether it goes on, has finished or failed is not ours to change."""
        run = Run(self.client, run_id, self.tracking_uri, metrics_path)
        try:
            yield run
        finally:
            run.close()

    def log_folder(self, run_id: str, folder: Path, artifact_path: str) -> None:
        """Adds the files of `folder` to a run, whatever its state."""
        with readable_errors(self.tracking_uri):
            self.client.log_artifacts(run_id, str(folder), artifact_path)

    def _create(self, name: str, parent_run_id: str | None) -> str:
        tags = {"mlflow.parentRunId": parent_run_id} if parent_run_id else {}
        return self.client.create_run(self.experiment_id, tags=tags, run_name=name).info.run_id

    def _log_params(self, run_id: str, params: Mapping[str, str]) -> None:
        """MLflow refuses to change a parameter, so a reopened run keeps its own."""
        from mlflow.entities import Param

        kept = self.client.get_run(run_id).data.params
        changed = sorted(key for key in params if key in kept and kept[key] != params[key])
        if changed:
            _log.warning("run %s keeps the parameters it was started with: %s", run_id, ", ".join(changed))
        fresh = [Param(key, value) for key, value in params.items() if key not in kept]
        for chunk in _chunks(fresh, MAX_BATCH_PARAMS):
            self.client.log_batch(run_id, params=chunk)


class Run:
    """An open run. Values are written to the local file at once, and sent in batches."""

    def __init__(
        self,
        client: "MlflowClient",
        run_id: str,
        tracking_uri: str,
        metrics_path: Path | None,
        *,
        is_resumed: bool = False,
    ) -> None:
        self.id = run_id
        self._client = client
        self._tracking_uri = tracking_uri
        self._metrics_path = metrics_path
        self._unsent: list[Metric] = []
        self._flushed_at = time.monotonic()
        self._last_ms = 0
        if is_resumed and metrics_path is not None and metrics_path.exists():
            self._catch_up(metrics_path)
        self._file = None if metrics_path is None else MetricsFile(metrics_path)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Records the values of one step. NaN and infinities are kept as they are.

        Raises ValueError for names that MLflow refuses. A store that does not answer is a warning:
        the values stay buffered and go with the next batch.
        """
        check_names(metrics)
        values = {name: float(value) for name, value in metrics.items()}
        # Rising timestamps, so that of two values for one step the later is known.
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        if self._file is not None:
            self._file.append(step, self._last_ms, values)
        self._buffer(step, self._last_ms, values)
        waited_s = time.monotonic() - self._flushed_at
        if len(self._unsent) >= FLUSH_METRICS or waited_s >= FLUSH_SECONDS:
            try:
                self.flush()
            except TrackingError as error:
                _log.warning("%d values wait for MLflow: %s", len(self._unsent), error)

    def flush(self) -> None:
        """Sends what is buffered, oldest first. Call it before a checkpoint is written."""
        self._flushed_at = time.monotonic()
        with readable_errors(self._tracking_uri):
            while self._unsent:
                self._client.log_batch(self.id, metrics=self._unsent[:MAX_BATCH_METRICS])
                del self._unsent[:MAX_BATCH_METRICS]

    def log_artifact(self, path: Path, artifact_path: str | None = None) -> None:
        with readable_errors(self._tracking_uri):
            self._client.log_artifact(self.id, str(path), artifact_path)

    def log_text(self, text: str, artifact_file: str) -> None:
        with readable_errors(self._tracking_uri):
            self._client.log_text(self.id, text, artifact_file)

    def log_dict(self, dictionary: Mapping[str, Any], artifact_file: str) -> None:
        with readable_errors(self._tracking_uri):
            self._client.log_dict(self.id, dict(dictionary), artifact_file)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        entries = [RunTag(key, _shortened(str(value), MAX_TAG_LENGTH)) for key, value in tags.items()]
        with readable_errors(self._tracking_uri):
            for chunk in _chunks(entries, MAX_BATCH_PARAMS):
                self._client.log_batch(self.id, tags=chunk)

    def close(self) -> None:
        """Sends the rest; the run's status stays as it is."""
        if self._file is not None:
            self._file.close()
        try:
            self.flush()
        except TrackingError as error:
            kept = f"; every value is in {self._metrics_path}" if self._metrics_path else ""
            raise TrackingError(f"{error}{kept}") from error

    def finish(self) -> None:
        """Sends the rest and marks the run FINISHED."""
        self.close()
        with readable_errors(self._tracking_uri):
            self._client.set_terminated(self.id, "FINISHED")

    def abort(self, error: BaseException) -> None:
        """Marks the run FAILED or KILLED; trouble with MLflow here must not hide `error`."""
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        try:
            self.close()
            self.set_tags({"sara.error": f"{type(error).__name__}: {error}"})
            with readable_errors(self._tracking_uri):
                self._client.set_terminated(self.id, status)
        except TrackingError as trouble:
            _log.warning("run %s could not be marked %s: %s", self.id, status, trouble)

    def _catch_up(self, path: Path) -> None:
        """Buffers what an earlier, killed process wrote to its file and never sent."""
        sent = histories(self._client, self.id)
        for step, time_ms, metrics in read_records(path):
            lacking = {k: x for k, x in metrics.items() if step not in sent.get(k, ((),))[0]}
            self._buffer(step, time_ms, lacking)
            self._last_ms = max(self._last_ms, time_ms)

    def _buffer(self, step: int, time_ms: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        self._unsent += [Metric(name, value, time_ms, int(step)) for name, value in values.items()]


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


def _find_or_make_experiment(client: "MlflowClient", name: str, tracking_uri: str) -> str:
    """Artifacts of an SQLite store lie in a folder beside the file; a server keeps its own."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        database = sqlite_path(tracking_uri)
        artifacts = None if database is None else (database.parent / "artifacts").as_uri()
        try:
            return client.create_experiment(name, artifact_location=artifacts)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process was faster
    if found.lifecycle_stage != "active":
        raise TrackingError(f"experiment {name!r} was deleted in MLflow; restore it there or use another name")
    return found.experiment_id


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
