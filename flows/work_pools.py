"""Work pools, their queues, and the deployments of prefect.yaml on them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

KINDS = ("local", "docker", "kubernetes")


def prefect_file() -> Path:
    """Where the deployments are written down: beside the packages, or where SARA_PREFECT_FILE says (the images)."""
    path = Path(os.environ.get("SARA_PREFECT_FILE") or Path(__file__).resolve().parents[1] / "prefect.yaml")
    if not path.exists():
        raise ValueError(f"{path}: no such file; work from a checkout of the repository, or set SARA_PREFECT_FILE")
    return path


def set_up_pool(kind: str, slots: int) -> None:
    """The work pool `sara-<kind>` with its queues, and every deployment on it; again changes nothing.

    slots   runs at once of what trains: the number of GPUs behind the pool
    """
    if kind not in KINDS:
        raise ValueError(f"--on {kind}: expected one of {', '.join(KINDS)}")
    pool = f"sara-{kind}"
    _make_pool(pool, kind)
    _limit_queues(pool, slots)
    _deploy(f"*/{kind}")


def _make_pool(pool: str, kind: str) -> None:
    template = {}
    if kind == "kubernetes":
        path = prefect_file().parent / "containers" / "kubernetes" / "base-job-template.json"
        template = json.loads(path.read_text(encoding="utf-8"))
    elif kind == "docker":
        template = _docker_template()
    wanted = WorkPoolCreate(name=pool, type="process" if kind == "local" else kind, base_job_template=template)
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectAlreadyExists):
        client.create_work_pool(wanted)


def _docker_template() -> dict[str, Any]:
    try:
        from prefect_docker.worker import DockerWorker
    except ImportError:
        raise ValueError("--on docker needs prefect-docker: pip install 'sara-rl[containers]'") from None
    return DockerWorker.get_default_base_job_template()


def _limit_queues(pool: str, slots: int) -> None:
    """`gpu` runs `slots` at once; `control` is for flows that wait for others, and has no limit."""
    with get_client(sync_client=True) as client:
        for queue, limit in (("gpu", slots), ("control", None)):
            try:
                found = client.read_work_queue_by_name(queue, work_pool_name=pool)
            except ObjectNotFound:
                client.create_work_queue(name=queue, work_pool_name=pool, concurrency_limit=limit)
            else:
                client.update_work_queue(found.id, concurrency_limit=limit)


def _deploy(pattern: str) -> None:
    """Create or update the deployments whose flow/name fits. Raises ValueError if Prefect refuses."""
    path = prefect_file()
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file", str(path), "--name", pattern]
    environment = {"SARA_HOME": str(Path.cwd()), "SARA_IMAGE": "sara:gpu"} | os.environ
    done = subprocess.run(
        command, env=environment, cwd=path.parent, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reason = lines[-1] if lines else "no reason given"
        raise ValueError(f"{path.name}: deployments {pattern} were refused: {reason}")
