"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file, such as configs/demo.toml")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Settings that win over the file, such as allocation.tau_low=0.4")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Prefect's log")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and say what it will do and need; loads no weights")
]
