"""Delivers an outbox to MLflow, each value once, whatever dies or does not answer in between.

Owns what is sent when, and how a delivery whose outcome is unknown is settled: a batch that was under way when
the process or the connection died is compared with what MLflow has before any of it is sent again.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout

from sara.reporting.json_lines import read_lines
from sara.reporting.metrics_file import as_record
from tasks.experiments import find_or_make_experiment
from tasks.outbox import Outbox
from tasks.tracking_store import TrackingError, open_client, readable_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

DELIVER_EVERY_S = 5.0
LONGEST_PAUSE_S = 30.0  # between attempts while MLflow does not answer
MAX_BATCH_METRICS = 1000  # this and the next are MLflow's limits
MAX_BATCH_ENTRIES = 100
KEY_TAG = "sara.run_key"
_TERMINAL = ("FINISHED", "FAILED", "KILLED")
_log = logging.getLogger(__name__)


class _ParentPending(TrackingError):
    """The parent run is about to be made by its own delivery."""


class Courier:
    """Delivers one outbox; one at a time for each folder (hold `outbox.lock()`)."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._client: MlflowClient | None = None
        # What an earlier process left may have been under way when it died.
        self._doubtful_until = _size(outbox.metrics_path)
        self._known: dict[str, set[tuple[int, int]]] = {}

    def deliver(self) -> int:
        """Send everything that is pending; returns how many values and other things were.

        Raises TrackingError if MLflow does not take it; what has arrived until then is noted.
        """
        with readable_errors(self.outbox.header.tracking_uri):
            self._ensure_run()
            return self._deliver_queue() + self._deliver_metrics()

    def ensure_run(self) -> str:
        """MLflow's id of the run, which is made if need be."""
        with readable_errors(self.outbox.header.tracking_uri):
            return self._ensure_run()

    def _ensure_run(self) -> str:
        header, cursor = self.outbox.header, self.outbox.cursor
        if self._client is None:
            self._client = open_client(header.tracking_uri)
        if cursor.run_id is None:
            experiment_id = find_or_make_experiment(self._client, header.experiment, header.tracking_uri)
            made = self._client.search_runs([experiment_id], f"tags.`{KEY_TAG}` = '{header.key}'", max_results=1)
            if made:
                run_id = made[0].info.run_id
            else:
                run_id = self._create(experiment_id)
                self._doubtful_until = 0
            self.outbox.save_cursor(run_id=run_id)
        return self.outbox.cursor.run_id

    def _create(self, experiment_id: str) -> str:
        header = self.outbox.header
        tags = {KEY_TAG: header.key}
        parent_id = header.parent_id if self.outbox.parent is None else _id_of(self.outbox.parent)
        if parent_id is not None:
            tags["mlflow.parentRunId"] = parent_id
        created = self._client.create_run(experiment_id, header.created_ms, tags=tags, run_name=header.name)
        return created.info.run_id

    def _deliver_queue(self) -> int:
        """Tags, parameters, artifacts and states in their order; each may be sent twice without harm."""
        delivered = 0
        for line in read_lines(self.outbox.queue_path, self.outbox.cursor.queue):
            if line.entry is not None:
                if line.entry.get("status") in _TERMINAL:  # who sees the end of a run sees all of it
                    delivered += self._deliver_metrics()
                self._deliver_entry(line.entry)
                delivered += 1
            self.outbox.save_cursor(queue=line.end)
        return delivered

    def _deliver_entry(self, entry: dict[str, Any]) -> None:
        client, run_id, kind = self._client, self.outbox.cursor.run_id, entry["kind"]
        if kind == "tags":
            self._set_tags(entry["tags"])
        elif kind == "params":
            self._set_params(entry["params"])
        elif kind == "text":
            client.log_text(run_id, entry["text"], entry["to"])
        elif kind == "artifact":
            self._upload(Path(entry["path"]), entry["to"])
        elif kind == "table":
            self._upload_table(Path(entry["path"]), entry["to"])
        elif kind == "dataset":
            self._log_dataset(entry)
        elif kind == "status" and entry["status"] in _TERMINAL:
            client.set_terminated(run_id, entry["status"], max(entry["time_ms"], self.outbox.header.created_ms))
        elif kind == "status":
            client.update_run(run_id, status=entry["status"])

    def _log_dataset(self, entry: dict[str, Any]) -> None:
        """MLflow keeps a data set once, however often it is named."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        source, profile = json.dumps({"uri": entry["source"]}), json.dumps({"num_rows": entry["rows"]})
        dataset = Dataset(entry["name"], entry["digest"], "local", source, profile=profile)
        given = DatasetInput(dataset, [InputTag("mlflow.data.context", entry["context"])])
        self._client.log_inputs(self.outbox.cursor.run_id, [given])

    def _set_tags(self, tags: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        for chunk in _chunks([RunTag(*item) for item in tags.items()], MAX_BATCH_ENTRIES):
            self._client.log_batch(self.outbox.cursor.run_id, tags=chunk)

    def _set_params(self, params: dict[str, str]) -> None:
        """MLflow refuses to change a parameter, so a run that goes on keeps its own."""
        from mlflow.entities import Param

        run_id = self.outbox.cursor.run_id
        kept = self._client.get_run(run_id).data.params
        fresh = [Param(key, value) for key, value in params.items() if key not in kept]
        for chunk in _chunks(fresh, MAX_BATCH_ENTRIES):
            self._client.log_batch(run_id, params=chunk)

    def _upload(self, path: Path, to: str | None) -> None:
        path = path if path.is_absolute() else self.outbox.folder / path
        if not path.exists():
            _log.warning("%s was removed before MLflow could take it", path)
        elif path.is_dir():
            self._client.log_artifacts(self.outbox.cursor.run_id, str(path), to)
        else:
            self._client.log_artifact(self.outbox.cursor.run_id, str(path), to)

    def _upload_table(self, path: Path, to: str) -> None:
        """MLflow adds to a table that it has, so one that is there is not sent again."""
        path, run_id = path if path.is_absolute() else self.outbox.folder / path, self.outbox.cursor.run_id
        if not path.exists():
            _log.warning("%s was removed before MLflow could take it", path)
        elif all(artifact.path != to for artifact in self._client.list_artifacts(run_id, str(Path(to).parent))):
            rows = [line.entry for line in read_lines(path, 0) if line.entry is not None]
            columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
            self._client.log_table(run_id, columns, to)

    def _deliver_metrics(self) -> int:
        from mlflow.entities import Metric

        path, delivered, batch, end = self.outbox.metrics_path, 0, [], self.outbox.cursor.metrics
        if _size(path) > end:
            _to_disk(path)  # MLflow never has what a power cut could take from the file
        for line in read_lines(path, end):
            step, time_ms, values = as_record(line.entry) if line.entry else (0, 0, {})
            if batch and len(batch) + len(values) > MAX_BATCH_METRICS:
                delivered += self._send(batch, end)
                batch = []
            batch += [Metric(name, value, time_ms, step) for name, value in values.items()]
            end = line.end
        return delivered + self._send(batch, end)

    def _send(self, batch: list[Metric], end: int) -> int:
        """Send the values before byte `end` that the cursor has not passed."""
        if self.outbox.cursor.metrics == end:
            return 0
        if self.outbox.cursor.metrics < self._doubtful_until:
            batch = [metric for metric in batch if (metric.step, metric.timestamp) not in self._arrived(metric.key)]
        self._doubtful_until = max(self._doubtful_until, end)  # until MLflow has answered
        for chunk in _chunks(batch, MAX_BATCH_METRICS):
            self._client.log_batch(self.outbox.cursor.run_id, metrics=chunk)
        self.outbox.save_cursor(metrics=end)
        return len(batch)

    def _arrived(self, name: str) -> set[tuple[int, int]]:
        """Steps and times of the values of a metric that MLflow has."""
        if name not in self._known:
            history = self._client.get_metric_history(self.outbox.cursor.run_id, name)
            self._known[name] = {(metric.step, metric.timestamp) for metric in history}
        return self._known[name]

    def forget(self) -> None:
        """After a failure: ask MLflow again what it has, through a new client."""
        self._client = None
        self._known = {}


class BackgroundDelivery:
    """A thread that delivers an outbox every few seconds; training never waits for it.

    MLflow that does not answer is tried again after ever longer pauses, and said once.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.trouble: TrackingError | None = None
        self._trouble_since: float | None = None
        self._wake, self._is_closing, self._is_given_up = threading.Event(), False, False
        self._thread = threading.Thread(target=self._run, name=f"delivery of {outbox.folder}", daemon=True)
        self._thread.start()

    def close(self, wait_s: float) -> int:
        """Deliver the rest; returns what is still pending after `wait_s` seconds of waiting for MLflow.

        An outage that has lasted longer already gets one last attempt, of a few seconds at most.
        """
        lasted_s = 0.0 if self._trouble_since is None else time.monotonic() - self._trouble_since
        self._is_closing = True
        self._wake.set()
        self._thread.join(max(wait_s - lasted_s, min(wait_s, 3.0)))
        self._is_given_up = True
        self._wake.set()
        if not self._thread.is_alive() and self.trouble is None:
            return 0
        return Outbox(self.outbox.folder).count_pending()

    def _run(self) -> None:
        pause_s = DELIVER_EVERY_S
        courier, lock = None, self.outbox.lock()
        while not self._is_given_up:
            is_last = self._is_closing
            try:
                if not lock.is_locked:
                    lock.acquire()
                courier = courier or Courier(Outbox(self.outbox.folder))
                courier.deliver()
                self._recovered()
                pause_s = DELIVER_EVERY_S
                if is_last:
                    break
            except Timeout:
                pause_s = 1.0  # another process delivers; its successor does the rest
            except _ParentPending:
                pause_s = 0.2
            except TrackingError as error:
                self._is_refused(error)
                courier.forget()
                pause_s = 1.0 if is_last else min(LONGEST_PAUSE_S, 2 * pause_s)
            self._wake.wait(pause_s)
            self._wake.clear()
        lock.release(force=True)

    def _is_refused(self, error: TrackingError) -> None:
        if self.trouble is None:
            self._trouble_since = time.monotonic()
            _log.warning("values wait in %s: %s", self.outbox.metrics_path, error)
        self.trouble = error

    def _recovered(self) -> None:
        if self.trouble is not None:
            _log.warning("MLflow answers again: what waited in %s was delivered", self.outbox.metrics_path)
        self.trouble, self._trouble_since = None, None


def _id_of(folder: Path) -> str:
    """MLflow's id of the run in the folder, which is made if need be."""
    outbox = Outbox(folder)
    if outbox.cursor.run_id is not None:
        return outbox.cursor.run_id
    try:
        with outbox.lock():
            outbox.refresh()
            return Courier(outbox).ensure_run()
    except Timeout:
        raise _ParentPending(f"{folder}: its own delivery has yet to make the run") from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
