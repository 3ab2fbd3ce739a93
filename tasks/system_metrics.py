"""The use of the machine while a run trains: processor, memory, disk, network and GPUs, by MLflow's own monitor.

It works in a thread of its own and sends to MLflow directly: a server that is away costs these figures, and nothing
else. They are no part of what a run has computed, so they are not in its local record.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.tracking import Run

_LOOK_S = 1.0
_LEAVE_S = 5.0


@contextmanager
def watched(run: Run, tracking_uri: str) -> Iterator[None]:
    """Record the use of the machine in the run, from when MLflow knows it until the body ends."""
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(run, tracking_uri, is_over), daemon=True, name="system-metrics")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(_LEAVE_S)


def _watch(run: Run, tracking_uri: str, is_over: threading.Event) -> None:
    while run.id is None:
        if is_over.wait(_LOOK_S):
            return
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    logging.getLogger("mlflow.system_metrics").setLevel(logging.ERROR)
    monitor = SystemMetricsMonitor(run.id, resume_logging=True, tracking_uri=tracking_uri)
    monitor.start()
    is_over.wait()
    monitor.finish()
