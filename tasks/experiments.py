"""MLflow experiments: found by name, or made with their artifacts beside the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.tracking_store import TrackingError, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient


def find_or_make_experiment(client: MlflowClient, name: str, tracking_uri: str) -> str:
    """Its id. Artifacts of an SQLite store lie in a folder beside the file; a server keeps its own.

    Raises TrackingError if the experiment was deleted.
    """
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
