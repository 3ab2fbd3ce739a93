"""The table of a simulation, for a terminal and for Markdown: one list of columns, two looks."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sara.reporting import formats
from sara.simulation.config import SimulateConfig
from sara.simulation.exact import cheapest_pair, ds_costs, fill_costs
from sara.simulation.summary import Figure, Row

PLAIN_WIDTH = 160  # of text that is not for a terminal
_GAP = 2


class Column(NamedTuple):
    """A heading (line breaks only in text) and how a row's cell is written; optional ones give way in a terminal."""

    title: str
    cell: Callable[[Row], str]
    is_optional: bool = False


def columns_for(config: SimulateConfig, rows: Sequence[Row]) -> list[Column]:
    """Settings that vary, then costs, then what kind of batches they buy; none that is empty in every row."""
    settings = [column for name, column in _SETTINGS.items() if name == "k" or name in config.grid.varied()]
    empty = {"", formats.NOTHING}
    return [column for column in (_STRATEGY, *settings, *_FIGURES) if {column.cell(row) for row in rows} - empty]


def render_text(config: SimulateConfig, rows: Sequence[Row], *, terminal_width: int | None = None) -> str:
    """As many columns as fit in a terminal (bold rows are SARA's), or all of them as plain text."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, _GAP, 0, 0), pad_edge=False, show_edge=False)
    width = terminal_width or PLAIN_WIDTH
    columns = _fitting(columns_for(config, rows), rows, width)
    for column in columns:
        is_name = column is _STRATEGY
        table.add_column(Text(column.title), justify="left" if is_name else "right", no_wrap=True, vertical="bottom")
    for row in rows:
        cells = (Text(column.cell(row)) for column in columns)
        table.add_row(*cells, style="bold" if row.strategy.startswith("sara") else None)
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=terminal_width is not None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _fitting(columns: list[Column], rows: Sequence[Row], width: int) -> list[Column]:
    """Without the last optional columns that would not fit."""

    def needed(column: Column) -> int:
        return _GAP + max(len(text) for text in (*column.title.split("\n"), *(column.cell(row) for row in rows)))

    kept = list(columns)
    for column in reversed(columns):
        if sum(map(needed, kept)) > width and column.is_optional:
            kept.remove(column)
    return kept


def render_markdown(config: SimulateConfig, rows: Sequence[Row]) -> str:
    """A GitHub-flavoured table."""
    columns = columns_for(config, rows)
    lines = [
        "| " + " | ".join(column.title.replace("\n", " ") for column in columns) + " |",
        "|:---|" + "---:|" * (len(columns) - 1),
    ]
    lines += ["| " + " | ".join(column.cell(row) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def notes(config: SimulateConfig) -> list[str]:
    """What the table cannot say of itself."""
    lines = [
        f"{config.num_seeds} seeds of {config.steps} steps, {config.allocation.groups_per_step} groups a step, "
        f"{config.population.prompts:,} prompts; rollouts and tokens are for one effective group; "
        "± is one standard error over seeds"
    ]
    if config.places:
        lines.append(f"decode steps: time for one effective group with {config.places} rollouts decoded at a time")
    if config.population.is_static:
        lines.append("exact: closed form for a fixed population, without the overshoot of batches")
        lines += [_best_known(config, k) for k in sorted({setting.k for setting in config.settings()})]
    if left_out := config.num_left_out():
        lines.append(f"{left_out} combinations of the grid left out: their probe is larger than k")
    return lines


def _best_known(config: SimulateConfig, k: int) -> str:
    """The cheapest boundaries for who knows the population, without and with the cap on lost groups."""
    mixture, cap = config.population.mixture(), config.allocation.max_false_abandon
    whole = ds_costs(mixture, k)
    if whole.effective == 0:
        return f"k = {k}: no group of this population is ever effective"
    written = []
    for max_lost in (1.0, cap):
        best = cheapest_pair(mixture, k, max_lost)
        costs = fill_costs(mixture, k, *best)
        saved = 1 - costs.rollouts_per_group / whole.rollouts_per_group
        written.append(
            f"{costs.rollouts_per_group:.1f} rollouts ({100 * saved:.0f}% saved), abandoning after {best.fails} fails "
            f"or {best.passes} passes and losing {100 * costs.lost:.0f}% of effective groups"
        )
    return f"k = {k}, best boundaries: {written[0]}; with at most {100 * cap:.0f}% lost: {written[1]}"


def _with_error(figure: Figure | None, scale: float = 1.0) -> str:
    if figure is None:
        return formats.NOTHING
    return f"{scale * figure.value:.1f}" + ("" if figure.error is None else f" ±{scale * figure.error:.1f}")


def _percent(figure: Figure | None) -> str:
    return formats.NOTHING if figure is None else f"{100 * figure.value:.0f}"


def _optional(number: float | None, form: str) -> str:
    return formats.NOTHING if number is None else format(number, form)


def _setting(value: float | int | str | None) -> str:
    return "" if value is None else str(value)


_STRATEGY = Column("strategy", lambda row: row.strategy)
_SETTINGS = {
    "k": Column("k", lambda row: str(row.k)),
    "tau_low": Column("tau_low", lambda row: _setting(row.tau_low)),
    "probe": Column("probe", lambda row: _setting(row.probe)),
    "increment": Column("increment", lambda row: _setting(row.increment)),
    "schedule": Column("schedule", lambda row: row.schedule),
    "prior": Column("prior", lambda row: "" if row.alpha0 is None else f"{row.alpha0:g}, {row.beta0:g}"),
}
_FIGURES = (
    Column("rollouts", lambda row: _with_error(row.rollouts_per_group)),
    Column("exact", lambda row: _optional(row.exact_rollouts_per_group, ".1f")),
    Column("% of\nDS", lambda row: _with_error(row.rollouts_vs_ds, 100)),
    Column("% of\nuniform", lambda row: _percent(row.rollouts_vs_uniform), is_optional=True),
    Column("% of\noracle", lambda row: _percent(row.rollouts_vs_oracle), is_optional=True),
    Column("tokens", lambda row: formats.count(row.tokens_per_group and row.tokens_per_group.value), is_optional=True),
    Column("tokens,\n% of DS", lambda row: _with_error(row.tokens_vs_ds, 100)),
    Column("step,\n× uniform", lambda row: f"{row.step_rollouts_vs_uniform.value:.2f}", is_optional=True),
    Column("effective", lambda row: formats.share(row.effective_share and row.effective_share.value)),
    Column("rounds", lambda row: formats.rounds(row.rounds.value)),
    Column("decode\nsteps", lambda row: _with_error(row.decode_steps_per_group), is_optional=True),
    Column("trained\nrate", lambda row: _optional(row.trained_rate, ".2f"), is_optional=True),
    Column("short\nsteps", lambda row: f"{100 * row.short_steps:.0f}%", is_optional=True),
)
