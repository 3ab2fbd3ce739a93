"""`sara data`: which data sets there are, and what a model is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.environment import set_up_environment

data = typer.Typer(help="Data sets: which there are, and what a model is asked.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text")]


@data.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """The data sets, where they come from and what a row of a file has."""
    from sara.datasets import DATASETS

    rows = [
        {
            "name": name,
            "title": dataset.title,
            "hub": f"{dataset.hub.name}@{dataset.hub.revision}" if dataset.hub else None,
            "fields": [f"{field}{'' if spec.is_required else '?'}" for field, spec in dataset.fields.items()],
        }
        for name, dataset in DATASETS.items()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:<12} {row['title']}")
        print(f"{'':<12} a file has: {', '.join(row['fields'])}{' (? may be missing)' if row['hub'] else ''}")
        if row["hub"]:
            print(f"{'':<12} from the hub: {row['hub']}")


@data.command()
def show(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings that win over the file, such as prompt.style=base")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/demo.toml")] = None,
    dataset: Annotated[str | None, typer.Option("--set", help="Data set, such as arithmetic")] = None,
    path: Annotated[Path | None, typer.Option("--path", help="JSONL or Parquet file of the data set")] = None,
    side: Annotated[Literal["train", "heldout"], typer.Option("--side", help="Which problems")] = "train",
    count: Annotated[int, typer.Option("-n", min=1, help="How many problems")] = 3,
    as_json: AsJson = False,
) -> None:
    """The first problems as the model is asked them: the exact prompt, its tokens and the reference."""
    from sara.sweeps import load_run_config

    options = {f"data.{side}": dataset, f"data.{side}_path": path}
    chosen = [f"{key}={json.dumps(str(value))}" for key, value in options.items() if value is not None]
    settings = load_run_config(config, [*(overrides or []), *chosen])
    set_up_environment()
    from sara.datasets import content_hash, load_side
    from sara.evaluation import evaluation_sampling
    from sara.models import load_reader
    from sara.prompts import prompt_fault, write_prompts

    reader = load_reader(settings.model)
    found = load_side(settings.data, side)
    problems = found.problems[:count]
    room = settings.engine.max_new_tokens if side == "train" else evaluation_sampling(settings).max_new_tokens
    prompts = write_prompts(reader.tokenizer, problems, settings.prompt)
    rows: list[dict[str, Any]] = [
        {
            "id": problem.id,
            "subject": problem.subject,
            "level": problem.level,
            "prompt": prompt.text,
            "prompt_tokens": len(prompt.ids),
            "reference": problem.reference,
            "fault": prompt_fault(reader, problem, prompt, room),
        }
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    if as_json:
        counts = {"size": len(found.problems), "left_out": found.counts(), "hash": content_hash(found.problems)}
        print(json.dumps({"set": getattr(settings.data, side), "side": side, **counts, "problems": rows}, indent=2))
        return
    for row in rows:
        where = ", ".join(str(row[name]) for name in ("subject",) if row[name] is not None)
        level = "" if row["level"] is None else f", level {row['level']}"
        print(f"--- {row['id']}{f'  ({where}{level})' if where else level.replace(', ', '  ')}")
        print(row["prompt"])
        print(f"--- {row['prompt_tokens']} tokens; reference {json.dumps(row['reference'], ensure_ascii=False)}")
        if row["fault"]:
            print(f"    {settings.model.path} cannot take it: {row['fault']}")
        print()
    size, hashed = len(found.problems), content_hash(found.problems)[:16]
    print(
        f"{size:,} problem{'' if size == 1 else 's'}; {found.summary()}; content hash {hashed}",
        file=sys.stderr,
    )
