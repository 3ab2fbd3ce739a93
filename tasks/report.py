"""The report of a comparison: read from MLflow, written to a folder, attached to the comparison's run.

`write_comparison_report` needs no Prefect server; `make_report` is the same thing as a Prefect task,
with the table as an artifact of the flow run.
"""

import re
from pathlib import Path

from prefect import task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext

from sara.reporting import (
    Comparison,
    findings,
    notes,
    render_markdown,
    summary_table,
    table_cells,
    write_report,
)
from tasks.tracking import connect, load_comparison


def write_comparison_report(
    tracking_uri: str, experiment: str, out_dir: Path, run_id: str | None = None
) -> tuple[Comparison, Path]:
    """The comparison (the newest, unless `run_id` names one) and the path of its index.html.

    The report's files are also added to the comparison's MLflow run, under `report/`.
    """
    comparison = load_comparison(tracking_uri, experiment, run_id)
    page = write_report(comparison, out_dir)
    connect(tracking_uri, experiment).log_folder(comparison.run_id, page.parent, "report")
    return comparison, page


@task(cache_policy=NO_CACHE)
def make_report(tracking_uri: str, experiment: str, out_dir: Path, run_id: str | None = None) -> Path:
    """Writes the report and returns its index.html; inside a flow run, the table becomes an artifact."""
    comparison, page = write_comparison_report(tracking_uri, experiment, out_dir, run_id)
    if FlowRunContext.get() is not None:  # outside a flow, an artifact would start a server
        publish_table(comparison)
    return page


def publish_table(comparison: Comparison) -> None:
    """The summary as a Prefect table, and as Markdown with what it says; a new version each time."""
    rows = summary_table(comparison)
    key = "comparison-" + _slug(comparison.experiment)
    said = "\n\n".join(findings(comparison))
    create_table_artifact(table=table_cells(rows), key=key, description=said)
    text = f"{said}\n\n{render_markdown(rows)}\n{' '.join(notes(comparison))}\n"
    create_markdown_artifact(markdown=text, key=f"{key}-summary")


def _slug(name: str) -> str:
    """Prefect allows [a-z0-9-] in a key."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
