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
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the newest run of this name; what is not set stays as it was")
]
Allow = Annotated[
    str | None, typer.Option(help="With --resume: settings that are meant to change, such as training.steps")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and say what it will do and need; loads no weights")
]
GpuMemory = Annotated[
    float | None,
    typer.Option("--gpu-memory", min=0.1, help="With --dry-run: GiB of the GPU, if not that of this machine"),
]
