"""`sara plan`: what a run would cost with each strategy, from what is known of its prompts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def plan(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE] [OVERRIDES]...",
            help="What is known of the prompts: a built-in population (saturated, hard, easy, uniform), a histogram "
            "(.csv or .json with rate and count) or a pilot log (.jsonl with prompt, successes and n); then settings "
            "such as allocation.k=16",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with the plan's settings")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for numbers, table and figure")] = Path("outputs/plan"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")] = False,
) -> None:
    """Predict rollouts, tokens, rounds and GPU hours, and say which settings to take."""
    from sara.config_file import load_config
    from sara.planning.config import PlanConfig
    from sara.planning.reading import read_pool

    settings = load_config(PlanConfig, config, as_overrides(arguments or []))
    pool = read_pool(settings.source)
    from flows.commands.outcome import open_folder, progress, short_warnings, terminal_width
    from sara.planning import report
    from sara.planning.plan import Plan
    from sara.planning.predict import predict
    from sara.planning.recommend import recommend

    open_folder(out)
    advice = recommend(pool.mixture, settings.allocation, settings.tokens)
    with short_warnings(), progress("simulating") as on_progress:
        found = Plan(settings, pool, advice, predict(settings, pool, advice, on_progress))
    paths = report.write_plan(out, found)
    if as_json:
        print(json.dumps(report.as_json(found), indent=2))
        return
    print(report.render_text(found, terminal_width=terminal_width()))
    print("\n".join(found.sentences))
    print(f"files    {' '.join(map(str, paths))}", file=sys.stderr)


def as_overrides(arguments: list[str]) -> list[str]:
    """The source, if there is one, is the only argument that sets no key."""
    sources = [argument for argument in arguments if "=" not in argument]
    if len(sources) > 1:
        raise ValueError(f"command line: {len(sources)} sources, {' and '.join(sources)}; expected one")
    overrides = [argument for argument in arguments if "=" in argument]
    return [*(f"source={json.dumps(source)}" for source in sources), *overrides]
