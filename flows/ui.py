"""MLflow's and Prefect's pages on the local records, both bound to 127.0.0.1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

from tasks.tracking import connect

HOST = "127.0.0.1"


def serve(tracking_uri: str, experiment: str, mlflow_port: int, prefect_port: int) -> None:
    """Run both servers until one ends or Ctrl-C. Raises ValueError if a port is taken or the store cannot be read.

    A tracking URI that is a server already is shown, not served again.
    """
    for name, port in (("mlflow-port", mlflow_port), ("prefect-port", prefect_port)):
        _require_free(name, port)
    experiment_id = connect(tracking_uri, experiment).experiment_id
    servers = [_start(_prefect_command(prefect_port), PREFECT_SERVER_UI_API_URL=f"http://{HOST}:{prefect_port}/api")]
    mlflow_page = tracking_uri
    if not tracking_uri.startswith("http"):
        mlflow_page = f"http://{HOST}:{mlflow_port}"
        servers.append(_start(_mlflow_command(tracking_uri, mlflow_port)))
    runs = f"{mlflow_page}/#/experiments/{experiment_id}/runs?workflowType=machine_learning"
    print(f"MLflow   {runs}\nPrefect  http://{HOST}:{prefect_port}/runs\nCtrl-C stops both.", flush=True)
    try:
        while all(server.poll() is None for server in servers):
            time.sleep(0.5)
    finally:
        for server in servers:
            _stop(server)
    raise ValueError("ui: a server ended by itself; its log is above")


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
            raise ValueError(f"ui: port {port} is taken; choose another with --{name}") from None


def _start(command: list[str], **environment: str) -> subprocess.Popen:
    """A server in a process group of its own, so that its workers stop with it; its log goes to stderr."""
    return subprocess.Popen(command, start_new_session=True, env=os.environ | environment, stdout=sys.stderr)


def _stop(server: subprocess.Popen) -> None:
    if server.poll() is not None:
        return
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
