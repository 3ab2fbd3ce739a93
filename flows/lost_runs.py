"""Flow runs that say Running though their process is gone: after a killed or stopped worker.

Prefect learns that a process ended from the worker that watched it. Where the worker went first, the run stays
Running for ever and keeps its place in its queue. On the machine of the worker the truth is known: the run names
its process. A lost run is scheduled again; it goes on from its last checkpoint.
"""

from __future__ import annotations

import psutil
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import AwaitingRetry, Cancelled

from flows.naming import host_tag

_HELD = [StateType.PENDING.value, StateType.RUNNING.value, StateType.CANCELLING.value]


def reschedule_lost_runs(work_pool: str, is_only_machine: bool = False) -> list[str]:
    """Schedule again every run of the pool whose process was on this machine and is gone; their names.

    is_only_machine   all runs of the pool are this machine's, as with a server on 127.0.0.1; else only those
                      that say so

    A run that was being cancelled is cancelled. Runs of other machines are left alone: their processes cannot be
    seen from here.
    """
    names = []
    held, pool = FlowRunFilter(state={"type": {"any_": _HELD}}), WorkPoolFilter(name={"any_": [work_pool]})
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=held, work_pool_filter=pool):
            is_here = is_only_machine or host_tag() in run.tags
            if is_here and is_process_gone(run):
                is_cancelled = run.state.type == StateType.CANCELLING
                message = "its process was gone"
                state = Cancelled(message=message) if is_cancelled else AwaitingRetry(message=message)
                client.set_flow_run_state(run.id, state, force=True)
                names += [] if is_cancelled else [run.name]
    return names


def is_process_gone(run: FlowRun) -> bool:
    """Whether the process that the run names is not on this machine; a younger one may have got its number."""
    pid = (run.infrastructure_pid or "").rpartition(":")[2]
    if not pid.isdigit():
        return False
    try:
        process = psutil.Process(int(pid))
        is_alive = process.status() != psutil.STATUS_ZOMBIE
        is_younger = run.start_time is not None and process.create_time() > run.start_time.timestamp() + 60
    except psutil.NoSuchProcess:
        return True
    return not is_alive or is_younger
