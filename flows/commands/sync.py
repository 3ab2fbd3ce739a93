"""`sara sync`: deliver to MLflow what runs recorded while it was away."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def sync(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs, or folders that hold some; outputs if left out")
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="MLflow tracking URI to deliver to instead, for runs that reached none yet")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines")] = False,
) -> None:
    """Deliver to MLflow what runs recorded while it was away; each value once, however often this is run."""
    from flows.environment import set_up_environment

    set_up_environment()
    from tasks.sync import default_root, sync

    results = []
    for done in sync(folders or [default_root()], uri):
        results.append(done)
        if not as_json:
            print(_line(done), flush=True)
    if as_json:
        print(json.dumps([done._asdict() | {"folder": str(done.folder)} for done in results], indent=2))
    if any(done.trouble for done in results):
        sys.exit(1)


def _line(done) -> str:
    if done.trouble:
        return f"{done.folder}: {done.pending} wait still: {done.trouble}"
    return f"{done.folder}: {f'{done.delivered} delivered' if done.delivered else 'nothing waits'}"
