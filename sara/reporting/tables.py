"""The summary table for a terminal, for Markdown and for the page: one list of columns, three looks."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sara.reporting import formats
from sara.reporting.summary import Row

TEXT_WIDTH = 100


@dataclass(frozen=True)
class Column:
    """`title` names it alone, `narrow` in a terminal, `group` and `head` where headings have two levels.

    `cell` writes the figure, `detail` its interval, which narrow tables show for one column only.
    """

    title: str
    narrow: str
    group: str
    head: str
    cell: Callable[[Row], str]
    detail: Callable[[Row], str] | None = None
    has_narrow_detail: bool = False


COLUMNS = (
    Column("strategy", "strategy", "", "strategy", lambda row: row.label),
    Column("seeds", "seeds", "", "seeds", lambda row: str(row.seeds) if row.seeds else ""),
    Column("steps", "steps", "", "steps", lambda row: _trained(row, formats.steps(row.steps))),
    Column("rollouts", "rollouts", "rollouts", "total", lambda row: _trained(row, formats.count(row.rollouts))),
    Column(
        "rollouts, % of DS",
        "% of\nDS",
        "rollouts",
        "% of DS",
        lambda row: _trained(row, formats.percent(row.rollouts_pct)),
    ),
    Column("tokens", "tokens", "tokens", "total", lambda row: _trained(row, formats.count(row.tokens))),
    Column(
        "tokens, % of DS",
        "% of\nDS",
        "tokens",
        "% of DS",
        lambda row: _trained(row, formats.percent(row.tokens_pct)),
    ),
    Column(
        "accuracy, avg@k %",
        "accuracy\navg@k %",
        "held-out score, %",
        "avg@k",
        lambda row: formats.score(row.accuracy),
        lambda row: formats.interval(row.accuracy),
        has_narrow_detail=True,
    ),
    Column(
        "pass@k, %",
        "pass\n@k %",
        "held-out score, %",
        "pass@k",
        lambda row: formats.score(row.pass_at_k),
        lambda row: formats.interval(row.pass_at_k),
    ),
    Column(
        "gain, points",
        "gain",
        "held-out score, %",
        "gain",
        lambda row: _trained(row, formats.points(row.gain)),
    ),
    Column(
        "effective groups",
        "eff.\nshare",
        "",
        "effective groups",
        lambda row: _trained(row, formats.share(row.effective_share)),
    ),
    Column(
        "rounds a step",
        "rounds\n/ step",
        "",
        "rounds a step",
        lambda row: _trained(row, formats.rounds(row.rounds)),
    ),
    Column("time", "time", "", "time", lambda row: _trained(row, formats.duration(row.wall_s))),
)


def column_groups() -> list[tuple[str, int]]:
    """The upper level of headings, left to right: a heading (may be empty) and how many columns it spans."""
    return [(group, len(list(members))) for group, members in groupby(COLUMNS, key=lambda column: column.group)]


def render_text(rows: Sequence[Row], *, is_terminal: bool = False) -> str:
    """At most 100 columns wide; colours and bold only for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for column in COLUMNS:
        is_name = column is COLUMNS[0]
        table.add_column(
            Text(column.narrow),
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
            vertical="bottom",
        )
    for row in rows:
        cells = [Text(_joined(column, row, is_narrow=True)) for column in COLUMNS]
        table.add_row(*cells, style="bold" if row.strategy.startswith("sara") else None)
    out = io.StringIO()
    console = Console(file=out, width=TEXT_WIDTH, force_terminal=is_terminal, legacy_windows=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render_markdown(rows: Sequence[Row]) -> str:
    """A GitHub-flavoured table; names from outside cannot break out of their cell."""
    lines = [
        "| " + " | ".join(column.title for column in COLUMNS) + " |",
        "|:---|" + "---:|" * (len(COLUMNS) - 1),
    ]
    for row in rows:
        cells = (_joined(column, row).replace("|", "\\|").replace("\n", " ") for column in COLUMNS)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def table_cells(rows: Sequence[Row]) -> list[dict[str, str]]:
    """One mapping of column title to text for each row."""
    return [{column.title: _joined(column, row) for column in COLUMNS} for row in rows]


def _joined(column: Column, row: Row, *, is_narrow: bool = False) -> str:
    has_detail = column.detail and (column.has_narrow_detail or not is_narrow)
    detail = column.detail(row) if has_detail else ""
    return column.cell(row) + (f" ({detail})" if detail else "")


def _trained(row: Row, text: str) -> str:
    """The base model was not trained: its cells stay empty rather than unknown."""
    return text if row.seeds else ""
