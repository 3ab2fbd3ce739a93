"""All runs of a simulation, on one process or several."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from sara.simulation.config import SimulateConfig
from sara.simulation.run import Run, Trace, plan_runs, simulate

OnProgress = Callable[[int, int], None]


def simulate_all(config: SimulateConfig, workers: int = 1, on_progress: OnProgress | None = None) -> list[Trace]:
    """A trace for each run and seed, in that order, whatever the number of processes; each warning once.

    workers      processes that play runs at the same time, at least 1
    on_progress  told how many runs are over, and of how many
    """
    jobs = [(config, run, seed) for run in plan_runs(config) for seed in config.seeds]
    traces, told = [], set()
    with _mapped(workers) as map_jobs:
        for trace, messages in map_jobs(_simulate_job, jobs):
            traces.append(trace)
            for message in messages:
                if message not in told:
                    warnings.warn(message, stacklevel=2)
            told |= set(messages)
            if on_progress:
                on_progress(len(traces), len(jobs))
    return traces


def _simulate_job(job: tuple[SimulateConfig, Run, int]) -> tuple[Trace, list[str]]:
    """The trace, and the warnings of settings, which another process would print in its own way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        trace = simulate(*job)
    return trace, [str(warning.message) for warning in caught]


@contextmanager
def _mapped(workers: int) -> Iterator[Callable]:
    """`map`, or that of a pool of processes."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool.map
