"""A comparison on stdout: its table and what it says, or the same figures as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sara.reporting import Comparison


def print_comparison(comparison: Comparison, as_json: bool) -> None:
    """The table in at most 100 columns and the findings below it."""
    from sara.reporting import findings, render_text, rows_as_json, summary_table

    rows = summary_table(comparison)
    if as_json:
        print(json.dumps(rows_as_json(rows), indent=2))
        return
    print(render_text(rows, is_terminal=sys.stdout.isatty()))
    print("\n".join(findings(comparison)))


def say(*lines: str) -> None:
    """Where things are, on stderr: stdout holds the table."""
    for line in lines:
        print(line, file=sys.stderr)
