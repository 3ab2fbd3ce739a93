"""Replay: a log of finished groups in, the whole report out.

Owns the order of the parts. See the modules beside for each.
"""

from __future__ import annotations

from sara.allocation import DynamicSamplingAllocator, FixedAllocator
from sara.replay.drive import Driven, drive
from sara.replay.grouplog import GroupLog
from sara.replay.recommend import recommend
from sara.replay.report import Replay
from sara.replay.results import replay_grid
from sara.replay.settings import Grid, Setting

MAX_LOST, MAX_ROUNDS = 0.25, 4.0


def replay_log(
    log: GroupLog,
    grid: Grid,
    *,
    max_lost: float = MAX_LOST,
    max_rounds: float = MAX_ROUNDS,
    target: int | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Replay:
    """Try `grid` on `log`, recommend a setting, and drive the training loop with it and with the baselines.

    max_lost    cap on the share of effective groups that the recommended setting loses
    max_rounds  cap on its mean rounds a step
    target      effective groups at which the driven steps stop; None: when all groups of the step are opened
    resamples   of the bootstrap
    seed        of the bootstrap, and of the order in which the driven steps drop surplus
    """
    result = replay_grid(log, grid, resamples, seed)
    recommendation = recommend(result, log.unit, max_lost, max_rounds)
    chosen = recommendation.chosen.setting if recommendation.chosen else None
    as_logged = _drive_all(log, result.baselines[0].k, chosen, target, seed)
    return Replay(log, result, recommendation, as_logged, target)


def _drive_all(log: GroupLog, k: int, chosen: Setting | None, target: int | None, seed: int) -> dict[str, Driven]:
    allocators = {"uniform": FixedAllocator(k), "ds": DynamicSamplingAllocator(k, max_gen_batches=None)}
    if chosen is not None:
        allocators["sara"] = chosen.allocator()
    return {name: drive(log, allocator, target=target, seed=seed) for name, allocator in allocators.items()}
