"""Reporting: a comparison's table, findings, figures and page.

Pure functions over plain values. Never talks to a tracking server or an orchestrator: `tasks` read
the numbers and hand them over as a `Comparison`.
"""

from sara.reporting.comparison import Comparison, Series, TrainingRun
from sara.reporting.findings import findings, notes
from sara.reporting.page import write_report
from sara.reporting.summary import Row, rows_as_json, summary_table
from sara.reporting.tables import render_markdown, render_text, table_cells

__all__ = [
    "Comparison",
    "Row",
    "Series",
    "TrainingRun",
    "findings",
    "notes",
    "render_markdown",
    "render_text",
    "rows_as_json",
    "summary_table",
    "table_cells",
    "write_report",
]
