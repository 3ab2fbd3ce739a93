"""When a failed task is worth another try, and whether this is one."""

from __future__ import annotations

from prefect.context import FlowRunContext, TaskRunContext


def is_worth_a_retry(task, task_run, state) -> bool:
    """Whether a failure may pass by itself: not for a mistake of the user's, which is a ValueError."""
    return not isinstance(state.result(raise_on_failure=False), ValueError)


def is_retry() -> bool:
    """Whether the task, or else the flow, that runs now has been tried before."""
    task, flow = TaskRunContext.get(), FlowRunContext.get()
    if task is not None:
        return task.task_run.run_count > 1
    return flow is not None and flow.flow_run is not None and flow.flow_run.run_count > 1
