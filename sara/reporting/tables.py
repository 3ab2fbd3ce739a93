"""The summary table for a terminal, for Markdown and for the page: one list of columns, three looks."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sara.reporting import formats
from sara.reporting.summary import Row

TEXT_WIDTH = 100


@dataclass(frozen=True)
class Column:
    """`title` names it alone, `narrow` in a terminal, `group` and `head` where headings have two levels.

    `cell` writes the figure, `detail` its interval. In a terminal the interval stands under the figure where
    `has_narrow_detail`, and a column of `runs` is a line below the table if all strategies agree on it.
    """

    title: str
    narrow: str
    group: str
    head: str
    cell: Callable[[Row], str]
    detail: Callable[[Row], str] | None = None
    has_narrow_detail: bool = False
    is_of_runs: bool = False


COLUMNS = (
    Column("strategy", "strategy", "", "strategy", lambda row: row.label),
    Column("seeds", "seeds", "", "seeds", lambda row: str(row.seeds) if row.seeds else "", is_of_runs=True),
    Column("steps", "steps", "", "steps", lambda row: _trained(row, formats.steps(row.steps)), is_of_runs=True),
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
        lambda row: _trained(row, formats.points_interval(row.gain)),
        has_narrow_detail=True,
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
        "rounds\n/step",
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
    """At most 100 columns wide, with as much air as that leaves; colours and bold only for a terminal."""
    out = io.StringIO()
    console = Console(file=out, width=TEXT_WIDTH, force_terminal=is_terminal, legacy_windows=False)
    shared = {column.narrow: said for column in COLUMNS if (said := _said_by_all(column, rows))}
    columns = [column for column in COLUMNS if column.narrow not in shared]
    airy, tight = (_text_table(columns, rows, gap) for gap in (2, 1))
    fits = Measurement.get(console, console.options.update(width=10 * TEXT_WIDTH), airy).maximum <= TEXT_WIDTH
    console.print(airy if fits else tight)
    if shared:
        counts = (f"{said} {name.removesuffix('s') if said == '1' else name}" for name, said in shared.items())
        console.print(Text(f"Each strategy: {', '.join(counts)}.", "dim"))
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


def _said_by_all(column: Column, rows: Sequence[Row]) -> str:
    """What every strategy says in a column of runs; empty where they differ."""
    said = {column.cell(row) for row in rows if row.seeds}
    return said.pop() if column.is_of_runs and len(said) == 1 else ""


def _text_table(columns: Sequence[Column], rows: Sequence[Row], gap: int) -> Table:
    """A row of figures for each strategy, with intervals under them; `gap` spaces between columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        is_name = column is COLUMNS[0]
        table.add_column(
            Text(column.narrow),
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
            vertical="bottom",
        )
    for row in rows:
        style = "bold" if row.strategy.startswith("sara") else ""
        details = [column.detail(row) if column.has_narrow_detail else "" for column in columns]
        figures = [Text(column.cell(row), style) for column in columns]
        if any(details):  # every cell gets its second line, for what is lower than its row sinks to the bottom
            figures = [
                figure.append(f"\n{detail or ' '}", "dim") for figure, detail in zip(figures, details, strict=True)
            ]
        table.add_row(*figures)
    return table


def _joined(column: Column, row: Row) -> str:
    detail = column.detail(row) if column.detail else ""
    return column.cell(row) + (f" ({detail})" if detail else "")


def _trained(row: Row, text: str) -> str:
    """The base model was not trained: its cells stay empty rather than unknown."""
    return text if row.seeds else ""
