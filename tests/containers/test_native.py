"""The services of compose.yaml without containers: its own commands and environment, on a real PostgreSQL."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from tests.flows.running import environment, free_port, is_up, wait_for

CONTAINERS = Path(__file__).resolve().parents[2] / "containers"
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())["services"]
PASSWORD = "a-password-of-this-test"


def postgresql(program: str) -> str | None:
    """A program of the newest PostgreSQL that is installed; Debian keeps them off the PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(debian[-1]) if debian else shutil.which(program)


@pytest.fixture
def database(tmp_path) -> Iterator[int]:
    """A PostgreSQL with the databases that the container's script makes; gives its port."""
    if postgresql("initdb") is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    user, as_user = "sara", []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("there is no user postgres to run PostgreSQL as")
        as_user = ["runuser", "-u", "postgres", "--"]
    folder, port = Path(f"/tmp/sara-postgres-{os.getpid()}"), free_port()
    folder.mkdir(mode=0o700)
    (folder / "password").write_text(PASSWORD)
    if as_user:
        subprocess.run(["chown", "-R", "postgres", str(folder)], check=True)
    initdb = [postgresql("initdb"), "-D", f"{folder}/data", "-U", user, "--auth=scram-sha-256"]
    try:
        subprocess.run([*as_user, *initdb, f"--pwfile={folder}/password"], check=True, capture_output=True, cwd="/tmp")
        options = ["-k", str(folder), "-h", "127.0.0.1", "-p", str(port), "-c", "fsync=off"]
        with started([*as_user, postgresql("postgres"), "-D", f"{folder}/data", *options], "/tmp", {}, tmp_path / "pg"):
            connection = ["-h", "127.0.0.1", "-p", str(port), "-U", user, "-d", "postgres"]
            with_password = os.environ | {"PGPASSWORD": PASSWORD}
            ready = [postgresql("pg_isready"), *connection]
            wait_for("PostgreSQL", lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0)
            script = str(CONTAINERS / "postgres" / "create-databases.sql")
            psql = [postgresql("psql"), *connection, "-q", "-f", script]
            subprocess.run(psql, check=True, env=with_password, capture_output=True)
            yield port
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(command: list[str], cwd: str | Path, more: dict[str, str], log: Path) -> Iterator[subprocess.Popen]:
    """A process with a log file, its whole group ended at the end."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | more, stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def natively(service: str, folder: Path, ports: dict[str, int]) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a service of compose.yaml, with this machine's host, ports and folders."""

    def local(text: str) -> str:
        text = text.replace("${POSTGRES_PASSWORD}", PASSWORD).replace(
            "/mlflow", str(folder / "artifacts"), is_path(text)
        )
        for host, port, native in (
            ("@postgres", 5432, ports["postgres"]),
            ("prefect-server", 4200, ports["prefect"]),
            ("mlflow", 5000, ports["mlflow"]),
            ("127.0.0.1", 4200, ports["prefect"]),
            ("127.0.0.1", 5000, ports["mlflow"]),
        ):
            text = text.replace(f"{host}:{port}", f"{'@' if host[0] == '@' else ''}127.0.0.1:{native}")
        return text.replace("0.0.0.0", "127.0.0.1")

    def is_path(text: str) -> int:
        return 1 if text.startswith("--artifacts-destination=") else 0

    found = COMPOSE[service]
    command = [local(part) for part in found["command"]]
    command = [str(ports["prefect"]) if part == "4200" else part for part in command]
    command = [f"--port={ports['mlflow']}" if part == "--port=5000" else part for part in command]
    module = {"prefect": "prefect", "mlflow": "mlflow", "sara": "flows.cli"}[command[0]]
    kept = environment(folder)
    kept.pop("PREFECT_API_DATABASE_CONNECTION_URL")
    return [sys.executable, "-m", module, *command[1:]], kept | {
        name: local(value) for name, value in found["environment"].items()
    }


def test_the_services_of_compose_run_natively_on_postgresql(database, tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `containers`)")
    ports = {"postgres": database, "prefect": free_port(), "mlflow": free_port()}
    server, server_environment = natively("prefect-server", tmp_path, ports)
    mlflow, mlflow_environment = natively("mlflow", tmp_path, ports)
    assert f":{database}/prefect" in server_environment["PREFECT_API_DATABASE_CONNECTION_URL"]
    with (
        started(server, tmp_path, server_environment, tmp_path / "prefect.log"),
        started(mlflow, tmp_path, mlflow_environment, tmp_path / "mlflow.log"),
    ):
        for name, health in (
            ("prefect", server_environment["SARA_HEALTH"]),
            ("mlflow", mlflow_environment["SARA_HEALTH"]),
        ):
            wait_for(f"{name}: {(tmp_path / f'{name}.log').read_text()[-500:]}", lambda url=health: is_up(url))
            checked = subprocess.run(
                [sys.executable, str(CONTAINERS / "health.py")], env=os.environ | {"SARA_HEALTH": health}, check=False
            )
            assert checked.returncode == 0
        client = MlflowClient(f"http://127.0.0.1:{ports['mlflow']}")
        run = client.create_run(client.create_experiment("on-postgresql"))
        client.log_metric(run.info.run_id, "accuracy", 0.5, step=1)
        client.log_text(run.info.run_id, "kept by the server", "note.txt")
        assert client.get_metric_history(run.info.run_id, "accuracy")[0].value == 0.5
        assert (tmp_path / "artifacts").is_dir(), "artifacts go through the server to its own folder"
        health = f"{server_environment['SARA_HEALTH'].removesuffix('/health')}/admin/version"
        with urllib.request.urlopen(health, timeout=10) as response:
            assert response.status == 200
    unreachable = os.environ | {"SARA_HEALTH": mlflow_environment["SARA_HEALTH"]}
    gone = subprocess.run(
        [sys.executable, str(CONTAINERS / "health.py")], env=unreachable, capture_output=True, check=False
    )
    assert gone.returncode == 1
