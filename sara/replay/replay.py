"""Replay: a log of finished groups in, the whole report out.

Owns the order of the parts. See the modules beside for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sara.allocation import Allocator, DynamicSamplingAllocator, FixedAllocator, SequentialAllocator
from sara.replay.drive import drive
from sara.replay.grouplog import GroupLog
from sara.replay.recommend import AUTO, AUTO_OPTIONS, about_auto, recommend
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
    is_driven: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replay:
    """Try `grid` on `log`, recommend a setting, and drive the training loop with it and with the baselines.

    max_lost    cap on the share of effective groups that the recommended setting loses, and SARA with tau_low = auto
    max_rounds  cap on its mean rounds a step
    target      effective groups at which the driven steps stop; None: when all groups of the step are opened
    resamples   of the bootstrap
    seed        of the bootstrap, and of the order in which the driven steps drop surplus
    is_driven   whether to drive the loop at all: it takes milliseconds a step and strategy
    on_progress told the steps driven so far and those there are
    """
    result = replay_grid(log, grid, resamples, seed)
    recommendation = recommend(result, log.unit, max_lost, max_rounds)
    chosen = recommendation.chosen.setting if recommendation.chosen else None
    allocators = _allocators(result.baselines[0].k, chosen, grid, log.unit, max_lost) if is_driven else {}
    as_logged, total = {}, len(allocators) * log.num_steps
    for place, (name, allocator) in enumerate(allocators.items()):
        before = place * log.num_steps

        def on_step(done: int, before: int = before) -> None:
            on_progress(before + done, total)

        as_logged[name] = drive(log, allocator, target=target, seed=seed, on_step=on_step)
    if advice := about_auto(as_logged, log.unit, max_lost):
        recommendation = replace(recommendation, reason=f"{recommendation.reason} {advice}")
    return Replay(log, result, recommendation, as_logged, target)


def _allocators(k: int, chosen: Setting | None, grid: Grid, unit: str | None, max_lost: float) -> dict[str, Allocator]:
    allocators: dict[str, Allocator] = {
        "uniform": FixedAllocator(k),
        "ds": DynamicSamplingAllocator(k, max_gen_batches=None),  # the log is its cap
    }
    if chosen is not None:
        allocators["sara"] = chosen.allocator()
    allocators[AUTO] = SequentialAllocator(
        k,
        **dict.fromkeys(AUTO_OPTIONS, "auto"),
        audit_rate=0.0,
        on_commit=grid.on_commit,
        max_false_abandon=max_lost,
        cost="tokens" if unit == "tokens" else "rollouts",
    )
    return allocators
