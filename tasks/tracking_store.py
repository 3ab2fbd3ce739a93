"""Reaching an MLflow store: is the URI usable, does anything answer, is it ours to set up first.

Owns the one-line errors a user sees when tracking is set up wrongly. Never logs to a run.
"""

import glob
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from mlflow import MlflowClient

CONNECT_TIMEOUT_S = 5
LOCK_TIMEOUT_S = 120
_DATABASES = ("postgresql", "mysql", "mssql")


class TrackingError(ValueError):
    """MLflow cannot be used as asked; the message is one line that says what to change."""


class StoreUnreachable(TrackingError):
    """Nothing answers at the URI now; it may be one that does later."""


def open_client(tracking_uri: str, *, must_exist: bool = False) -> "MlflowClient":
    """A client of a store that answers.

    Makes the folder of an SQLite file, unless `must_exist`; then the file has to be there.
    Raises TrackingError within seconds otherwise.
    """
    scheme = tracking_uri.partition(":")[0] if ":" in tracking_uri else ""
    if scheme.partition("+")[0] == "sqlite":
        _check_sqlite(tracking_uri, must_exist=must_exist)
    elif scheme in ("http", "https"):
        _check_server(tracking_uri)
    elif scheme.partition("+")[0] not in _DATABASES:
        raise TrackingError(_unsupported(tracking_uri, scheme))
    # MLflow reads these when it is imported and at each request: no telemetry, nothing printed into
    # our output, and a server that goes away costs seconds, not the four minutes of seven retries.
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow import MlflowClient

    with readable_errors(tracking_uri), _first_use_lock(tracking_uri), _quiet_migrations():
        _make_database(tracking_uri)
        return MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)


@contextmanager
def _first_use_lock(tracking_uri: str) -> Iterator[None]:
    """Processes that meet a fresh SQLite file take turns: MLflow crashes when two create its tables."""
    database = sqlite_path(tracking_uri)
    if database is None:
        yield
        return
    try:
        with FileLock(f"{database}.lock", timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout:
        raise TrackingError(
            f"tracking.uri = {tracking_uri}: another process has held {database}.lock for "
            f"{LOCK_TIMEOUT_S} s; end it, or use another database"
        ) from None


def _make_database(tracking_uri: str) -> None:
    """Give a fresh SQLite file its tables beside its place: what a kill leaves of them, MLflow could not mend."""
    database = sqlite_path(tracking_uri)
    if database is None or database.exists():
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    partial = database.with_name(f"{database.name}.partial")
    for left in database.parent.glob(f"{glob.escape(partial.name)}*"):  # with SQLite's own journal of it
        left.unlink()
    store = SqlAlchemyStore(f"sqlite:///{partial}", "./mlruns")  # the folder is MLflow's default for such a store
    store.engine.dispose()
    partial.replace(database)


@contextmanager
def readable_errors(tracking_uri: str) -> Iterator[None]:
    """Turns MLflow's and the database driver's errors into one line that names the store."""
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, OSError) as error:  # OSError: no connection, disk full
        reason = re.sub(r"\s+", " ", str(error)).strip()
        said = "the server no longer answers" if "Max retries" in reason else f"MLflow says: {reason[:300]}"
        raise TrackingError(f"tracking.uri = {tracking_uri}: {said}") from error


def sqlite_path(tracking_uri: str) -> Path | None:
    """The absolute path of an SQLite store's file; None for other stores."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if not tracking_uri.startswith("sqlite"):
        return None
    try:
        database = make_url(tracking_uri).database
    except ArgumentError:
        database = None
    if not database or database == ":memory:":
        raise TrackingError(
            f"tracking.uri = {tracking_uri}: expected a file, sqlite:///folder/mlflow.db "
            "(four slashes for an absolute path)"
        )
    return Path(database).absolute()


def _check_sqlite(tracking_uri: str, *, must_exist: bool) -> None:
    database = sqlite_path(tracking_uri)
    if must_exist and not database.exists():
        raise TrackingError(f"tracking.uri = {tracking_uri}: there is no such file; nothing was tracked there")
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrackingError(
            f"tracking.uri = {tracking_uri}: cannot make the folder {database.parent}: {error.strerror}"
        ) from None


def _check_server(tracking_uri: str) -> None:
    """Anything that speaks HTTP passes; whether it is MLflow shows at the first request."""
    try:
        urllib.request.urlopen(tracking_uri.rstrip("/") + "/version", timeout=CONNECT_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError) as error:  # refused, unknown host, timed out, not a URL
        reason = getattr(error, "reason", error)
        raise StoreUnreachable(
            f"tracking.uri = {tracking_uri}: no MLflow server answers there ({reason}); "
            "start one with `make ui` or use sqlite:///outputs/mlflow.db"
        ) from None


def _unsupported(tracking_uri: str, scheme: str) -> str:
    if scheme in ("", "file"):
        why = "MLflow 3 no longer keeps runs in plain folders"
    else:
        why = f"{scheme!r} is not a store this project supports"
    return f"tracking.uri = {tracking_uri}: {why}; use sqlite:///outputs/mlflow.db or http://host:port"


@contextmanager
def _quiet_migrations() -> Iterator[None]:
    """Forty lines about table versions on a first use help nobody."""
    loggers = [logging.getLogger(name) for name in ("alembic", "mlflow.store.db.utils")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
