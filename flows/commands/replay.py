"""`sara replay`: what SARA would have generated and kept on a log that exists already.

Owns the options and what is printed and written. numpy, pyarrow and matplotlib are imported when it runs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def replay(
    files: Annotated[list[Path], typer.Argument(help="JSONL (plain or .gz) or Parquet files, or folders of them")],
    columns: Annotated[
        str | None, typer.Option(help="Names of columns: prompt=..,reward=..,length=..,step=..,completion=..")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Rewards of at least this are right; else 0 and 1")] = None,
    k: Annotated[str | None, typer.Option(help="Group sizes, such as 8,4; the log's and its half if left out")] = None,
    tau_low: Annotated[str | None, typer.Option(help="Thresholds, such as 0.3,0.5; 0.1 to 0.9 if left out")] = None,
    probe: Annotated[
        str | None, typer.Option(help="Rollouts of the first round, such as 2,4; 1 to k-1 if left out")
    ] = None,
    increment: Annotated[
        int | None, typer.Option(min=1, help="Rollouts of later rounds; the probe again if left out")
    ] = None,
    prior: Annotated[str, typer.Option(help="Beta prior of success rates: alpha0,beta0")] = "1,1",
    on_commit: Annotated[
        str, typer.Option(help="fill: draw mixed groups up to k; stop: train on them as they are")
    ] = "fill",
    max_lost: Annotated[
        float, typer.Option(min=0, max=1, help="Recommend no setting that loses more effective groups")
    ] = 0.25,
    max_rounds: Annotated[float, typer.Option(min=1, help="Recommend no setting that takes more rounds a step")] = 4,
    target: Annotated[
        int | None, typer.Option(min=1, help="Effective groups at which a driven step stops; all groups if left out")
    ] = None,
    drive: Annotated[bool, typer.Option(help="Also drive the training loop over the log")] = True,
    resamples: Annotated[int, typer.Option(min=0, help="Of the bootstrap; 0 for no intervals")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap and the order of surplus")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for replay.json and replay.png")] = Path("outputs/replay"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables")] = False,
) -> None:
    """Say what SARA would have generated and kept on the groups of a log (TRL, verl, or your own)."""
    from flows.commands.outcome import open_folder, progress
    from sara.replay import Grid, as_text, parse_mapping, read_log, replay_log
    from sara.replay import as_json as plain
    from sara.replay.figure import draw_costs
    from sara.replay.readers import find_logs
    from sara.replay.settings import TAUS, default_ks

    mapping = parse_mapping(columns)
    taus = _numbers("--tau-low", tau_low, float) or TAUS
    probes = _numbers("--probe", probe, int) or None
    ks = _numbers("--k", k, int)
    alpha0, beta0 = _pair("--prior", prior)
    _require_finite("--threshold", threshold)
    _require_finite("--max-rounds", max_rounds)
    size = sum(path.stat().st_size for path in find_logs(files))
    open_folder(out)
    with progress("reading") as on_progress:
        log = read_log(files, mapping, threshold, on_bytes=_counting(on_progress, size))
    grid = Grid(ks or default_ks(log.k), taus, probes, increment, alpha0, beta0, on_commit)
    with progress("replaying") as on_progress:
        found = replay_log(
            log,
            grid,
            max_lost=max_lost,
            max_rounds=max_rounds,
            target=target,
            resamples=resamples,
            seed=seed,
            is_driven=drive,
            on_progress=on_progress,
        )
    numbers, picture = out / "replay.json", out / "replay.png"
    written = json.dumps(plain(found), indent=2, allow_nan=False)
    numbers.write_text(written + "\n", encoding="utf-8")
    draw_costs(found.grid, found.recommendation, log.unit, max_lost).savefig(picture)
    print(written if as_json else as_text(found, is_terminal=sys.stdout.isatty()))
    print(f"files    {numbers} {picture}", file=sys.stderr)


def _counting(on_progress: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """Adds up counts of bytes."""
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total)

    return on_bytes


def _numbers(option: str, text: str | None, kind: Callable[[str], float]) -> tuple:
    """`0.3,0.5` as numbers; nothing where the option was left out."""
    try:
        return tuple(kind(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{option} {text!r}; expected {what} separated by commas") from None


def _require_finite(option: str, number: float | None) -> None:
    if number is not None and not math.isfinite(number):
        raise ValueError(f"{option} {number}; expected a finite number")


def _pair(option: str, text: str) -> tuple[float, float]:
    numbers = _numbers(option, text, float)
    if len(numbers) != 2:
        raise ValueError(f"{option} {text!r}; expected two numbers, such as 1,1")
    return numbers
