"""What runs beside the flows on one machine: Prefect's server and a worker, MLflow's server; all on 127.0.0.1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.tracking import connect

HOST = "127.0.0.1"
POOL = "sara-local"
WORKER = "the worker"
SOON_S = 10.0
START_TIMEOUT_S = 180
_PATIENT = {"PREFECT_SERVER_DATABASE_TIMEOUT": "60", "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60"}
"""SQLite takes one writer at a time: on a busy machine the default of 10 s ends in `database is locked`."""


def serve(tracking_uri: str, experiment: str, mlflow_port: int, prefect_port: int, slots: int | None = None) -> None:
    """Run the servers until one ends, or Ctrl-C or SIGTERM ends all.

    slots   runs that the worker carries out at once; None for no worker, the pages alone

    A tracking URI that is a server already is used, not served again. Raises ValueError if a port is taken or the
    store cannot be read.
    """
    for name, port in (("mlflow-port", mlflow_port), ("prefect-port", prefect_port)):
        _require_free(name, port)
    experiment_id = connect(tracking_uri, experiment).experiment_id
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` stops as cleanly as Ctrl-C
    start_worker = None
    with _running() as servers:
        api = f"http://{HOST}:{prefect_port}/api"
        servers["Prefect's server"] = _start(_prefect_command(prefect_port), PREFECT_SERVER_UI_API_URL=api, **_PATIENT)
        mlflow_page = tracking_uri
        if not tracking_uri.startswith("http"):
            mlflow_page = f"http://{HOST}:{mlflow_port}"
            servers["MLflow"] = _start(_mlflow_command(tracking_uri, mlflow_port))
        if slots is not None:
            start_worker = _set_up_worker(servers, api, mlflow_page, slots)
            _go_on_with_lost_runs("goes on")
            servers[WORKER] = start_worker()
        runs = f"{mlflow_page}/#/experiments/{experiment_id}/runs?workflowType=machine_learning"
        print(f"MLflow   {runs}\nPrefect  http://{HOST}:{prefect_port}/runs", flush=True)
        if slots is not None:
            print(f"API      export PREFECT_API_URL={api} MLFLOW_TRACKING_URI={mlflow_page}", flush=True)
        print("Ctrl-C stops all.", flush=True)
        _watch(servers, start_worker)


def _set_up_worker(
    servers: dict[str, subprocess.Popen], api: str, mlflow_page: str, slots: int
) -> Callable[[], subprocess.Popen]:
    """Pool, queues and deployments; gives what starts a worker for them."""
    _wait_for(f"{api}/health", servers)
    _wait_for(f"{mlflow_page}/health", servers)
    os.environ["PREFECT_API_URL"] = api  # this process talks to the server too, from here on
    from flows.work_pools import set_up_pool

    set_up_pool("local", slots)
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    environment = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": mlflow_page, "SARA_HOME": str(Path.cwd())}
    return lambda: _start(command, **environment)


@contextmanager
def _running() -> Iterator[dict[str, subprocess.Popen]]:
    """Servers by name; the last started is stopped first."""
    servers: dict[str, subprocess.Popen] = {}
    try:
        yield servers
    finally:
        worker = servers.pop(WORKER, None)
        if worker is not None:
            _stop(worker)
            _go_on_with_lost_runs("waits for the next `sara up`")
        for server in reversed(servers.values()):
            _stop(server)


def _go_on_with_lost_runs(said: str) -> None:
    """A worker that ended leaves its runs Running: schedule them again, for the next one to go on with."""
    from flows.lost_runs import reschedule_lost_runs

    for name in reschedule_lost_runs(POOL, is_only_machine=True):
        print(f"{name}: {said}", flush=True)


def _watch(servers: dict[str, subprocess.Popen], start_worker: Callable[[], subprocess.Popen] | None) -> None:
    """Until a server ends by itself. A worker that does is replaced, unless it has just been started."""
    started_at = time.monotonic()
    while True:
        for name, server in list(servers.items()):
            if server.poll() is None:
                continue
            if name != WORKER or time.monotonic() - started_at < SOON_S:
                raise ValueError(f"{name} ended by itself (exit code {server.returncode}); its log is above")
            print(f"the worker ended (exit code {server.returncode}): another is started", flush=True)
            _go_on_with_lost_runs("goes on")
            servers[WORKER], started_at = start_worker(), time.monotonic()
        time.sleep(0.5)


def _wait_for(url: str, servers: dict[str, subprocess.Popen]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError) as error:
            ended = [name for name, server in servers.items() if server.poll() is not None]
            if ended or time.monotonic() > deadline:
                who = f"{ended[0]} ended by itself" if ended else f"nothing answers at {url} ({error})"
                raise ValueError(f"{who}; the log is above") from None
            time.sleep(0.5)


def _prefect_command(port: int) -> list[str]:
    return [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)]


def _mlflow_command(tracking_uri: str, port: int) -> list[str]:
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", tracking_uri]
    return [*command, "--host", HOST, "--port", str(port), "--workers", "1"]


def _require_free(name: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise ValueError(f"port {port} is taken; choose another with --{name}") from None


def _start(command: list[str], **environment: str) -> subprocess.Popen:
    """A server in a process group of its own, so that its workers stop with it; its log goes to stderr."""
    return subprocess.Popen(command, start_new_session=True, env=os.environ | environment, stdout=sys.stderr)


def _stop(server: subprocess.Popen) -> None:
    if server.poll() is not None:
        return
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
