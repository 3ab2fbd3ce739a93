"""When a failed task is worth another try."""

from __future__ import annotations


def is_worth_a_retry(task, task_run, state) -> bool:
    """Whether a failure may pass by itself: not for a mistake of the user's, which is a ValueError."""
    return not isinstance(state.result(raise_on_failure=False), ValueError)
