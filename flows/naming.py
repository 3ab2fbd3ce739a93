"""Tags of flow runs: by them runs are found in Prefect's pages and a sweep finds its cells."""

from __future__ import annotations

import socket

from prefect import get_client
from prefect.context import FlowRunContext

from sara.config import RunConfig


def tag_run(*tags: str) -> None:
    """Add tags to the flow run that this is called in, and its machine's; deployments and callers give others."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with get_client(sync_client=True) as client:
        known = client.read_flow_run(context.flow_run.id).tags
        client.update_flow_run(context.flow_run.id, tags=sorted({*known, *tags, host_tag()}))


def host_tag() -> str:
    """Which machine a run is on: only there can its process be seen."""
    return f"host:{socket.gethostname()}"


def config_tags(config: RunConfig) -> tuple[str, ...]:
    """What a single run is about."""
    return (f"strategy:{config.strategy}", f"seed:{config.seed}", f"data:{config.data.train}")
