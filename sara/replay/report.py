"""The report of a replay: one value for machines, one text for a terminal.

Owns the wording and the layout. Computes nothing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from sara.replay.drive import Driven
from sara.replay.grouplog import GroupLog
from sara.replay.recommend import CANNOT_TELL, Recommendation, notes, spanning, warnings
from sara.replay.results import Baseline, GridResult, SettingResult, undominated
from sara.replay.sums import Interval
from sara.reporting.formats import NOTHING, count, rounds

TEXT_WIDTH = 100
MAX_ROWS = 12  # of the table of one k


@dataclass(frozen=True)
class Replay:
    """All that a replay found.

    as_logged  strategy -> totals when the collection loop is driven over the log in logged order
    target     effective groups at which the driven steps stop; None: when all groups of the step are opened
    """

    log: GroupLog
    grid: GridResult
    recommendation: Recommendation
    as_logged: dict[str, Driven]
    target: int | None = None


def as_json(replay: Replay) -> dict[str, Any]:
    """Plain values: the same figures as the text, and all settings."""
    log, chosen = replay.log, replay.recommendation.chosen
    return {
        "log": {
            "files": [str(path) for path in log.files],
            "read_as": list(log.layouts),
            "groups": log.num_groups,
            "rollouts": log.num_rollouts,
            "prompts": log.num_prompts,
            "steps": log.num_steps,
            "k": log.k,
            "length_unit": log.unit,
            "skipped": asdict(log.skipped),
            "notes": notes(log),
        },
        "baselines": [asdict(baseline) for baseline in replay.grid.baselines],
        "settings": [asdict(result) for result in replay.grid.settings],
        "recommended": {
            "setting": asdict(chosen.setting) if chosen else None,
            "overrides": chosen.setting.overrides() if chosen else None,
            "reason": replay.recommendation.reason,
        },
        "as_logged": {name: asdict(driven) for name, driven in replay.as_logged.items()},
        "target": replay.target,
        "warnings": warnings(log, replay.grid),
        "cannot_tell": list(CANNOT_TELL),
    }


def as_text(replay: Replay, *, is_terminal: bool = False) -> str:
    """At most 100 columns wide; colours and bold only for a terminal."""
    out = io.StringIO()
    console = Console(file=out, width=TEXT_WIDTH, force_terminal=is_terminal, legacy_windows=False, highlight=False)
    for warning in spanning(replay.log):
        console.print(f"Careful: {warning}\n", markup=False)
    _print_log(console, replay.log)
    for baseline in replay.grid.baselines:
        of_k = [result for result in replay.grid.settings if result.setting.k == baseline.k]
        _print_grid(console, replay, baseline, undominated(of_k))
    if replay.as_logged:
        _print_driven(console, replay)
    chosen = replay.recommendation.chosen
    console.print(f"\nRecommended: {chosen.setting.overrides() if chosen else 'ds'}", style="bold", markup=False)
    console.print(replay.recommendation.reason, markup=False)
    at_head = spanning(replay.log)
    for warning in warnings(replay.log, replay.grid):
        if warning not in at_head:
            console.print(f"\nCareful: {warning}", markup=False)
    console.print("\nWhat a replay cannot tell:")
    for sentence in CANNOT_TELL:
        console.print(f"- {sentence}", markup=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print_log(console: Console, log: GroupLog) -> None:
    sizes = f"{log.num_groups:,} groups of {log.num_prompts:,} prompts in {log.num_steps:,} steps, k = {log.k}"
    console.print(f"{' and '.join(log.layouts)}: {sizes}, {log.num_rollouts:,} rollouts", markup=False)
    for note in notes(log):
        console.print(note, markup=False)


def _print_grid(console: Console, replay: Replay, baseline: Baseline, results: Sequence[SettingResult]) -> None:
    effective, a_group = _percent(baseline.effective_share), f"{baseline.rollouts_per_group.value:.1f}"
    console.print(
        f"\nk = {baseline.k}: {baseline.groups:,} groups, of which {effective} percent are effective. Uniform and DS "
        f"generate {baseline.rollouts:,} rollouts, {a_group} for each effective group.",
        markup=False,
    )
    unit = replay.log.unit
    heads = ["tau_low", "probe", "drops at\nfail/pass", "rollouts\n% of DS", "rollouts/kept\n% of DS"]
    heads += [f"{unit}/kept\n% of DS"] if unit else []
    table = _table([*heads, "effective\nlost, %", "falsely\nab., %", "rounds\n/step"])
    chosen = replay.recommendation.chosen
    shown = _thinned(results, chosen)
    for result in shown:
        cells = _cells(result, baseline.k, has_lengths=unit is not None)
        table.add_row(*cells, style="bold" if result is chosen else None)
    console.print(table)
    if len(shown) < len(results):
        console.print(f"({len(results) - len(shown)} settings between these are in replay.json)", markup=False)


def _thinned(results: Sequence[SettingResult], chosen: SettingResult | None) -> list[SettingResult]:
    """At most MAX_ROWS of them, evenly spread, the chosen one always among them."""
    if len(results) <= MAX_ROWS:
        return list(results)
    kept = {round(i * (len(results) - 1) / (MAX_ROWS - 1)) for i in range(MAX_ROWS)}
    return [result for i, result in enumerate(results) if i in kept or result is chosen]


def _cells(result: SettingResult, k: int, *, has_lengths: bool) -> list[str]:
    setting = result.setting
    probe = f"{setting.probe}" if setting.increment == setting.probe else f"{setting.probe}+{setting.increment}"
    drops = "/".join(NOTHING if n == k else str(n) for n in (result.drops_fail, result.drops_pass))
    cells = [f"{setting.tau_low:g}", probe, drops, f"{100 * result.generated.value:.0f}", _percent(result.cost)]
    cells += [_percent(result.length_cost)] if has_lengths else []
    false = NOTHING if result.false_abandonment is None else f"{100 * result.false_abandonment.value:.1f}"
    return [*cells, _percent(result.lost), false, rounds(result.rounds)]


def _print_driven(console: Console, replay: Replay) -> None:
    target, unit = replay.target, replay.log.unit
    until = "all its groups are opened" if target is None else f"{target} groups are effective"
    cost = "tokens" if unit == "tokens" else "rollouts"
    console.print(
        f"\nThe training loop driven over the log in logged order, each step until {until} (cost: {cost} for each "
        "effective group):",
        markup=False,
    )
    heads = ["opened", "rollouts", *([unit] if unit else []), "effective", "dropped", "falsely"]
    heads += ["rounds", "cost\n% of DS"]
    table = _table(["strategy", *heads, *(["surplus", "starved"] if target else [])])
    base = replay.as_logged["ds"].cost(unit)
    for name, driven in replay.as_logged.items():
        cells = [f"{driven.opened:,}", f"{driven.rollouts:,}", *([count(driven.lengths)] if unit else [])]
        counts = (driven.effective, driven.abandoned, driven.false_abandoned)
        cells += [*(f"{number:,}" for number in counts), rounds(driven.rounds)]
        is_known = driven.effective and replay.as_logged["ds"].effective
        cells += [f"{100 * driven.cost(unit) / base:.1f}" if is_known else NOTHING]
        starved = f"{driven.outcomes.get('prompts', 0):,}"  # steps whose groups ran out before the target
        table.add_row(name, *cells, *([f"{driven.surplus:,}", starved] if target else []))
    console.print(table)


def _table(heads: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, collapse_padding=True)
    for head in heads:
        table.add_column(head, justify="left" if head == "strategy" else "right", vertical="bottom", no_wrap=True)
    return table


def _percent(interval: Interval | None) -> str:
    """In percent, without the sign: 86.5 (85–88)."""
    if interval is None:
        return NOTHING
    text = f"{100 * interval.value:.1f}"
    if interval.low is None or interval.high is None:
        return text
    return f"{text} ({100 * interval.low:.0f}–{100 * interval.high:.0f})"
