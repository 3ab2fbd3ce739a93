"""The report of a comparison: read from MLflow, written to a folder, attached to the comparison's run.

`write_comparison_report` needs no Prefect server; `make_report` is the same thing as a Prefect task,
with the table as an artifact of the flow run.
"""

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
from tasks.artifacts import artifact_key
from tasks.comparisons import Selection, load_selection
from tasks.tracking import connect


def write_comparison_report(
    tracking_uri: str, experiment: str, out_dir: Path, run_id: str | None = None
) -> tuple[Comparison, Path]:
    """The comparison (the newest, unless `run_id` names one) and the path of its index.html."""
    return write_selection_report(tracking_uri, experiment, out_dir, Selection((run_id,) if run_id else ()))


def write_selection_report(
    tracking_uri: str, experiment: str, out_dir: Path, selection: Selection
) -> tuple[Comparison, Path]:
    """Any runs side by side, and the path of their index.html.

    The report of one comparison or sweep is also added to its MLflow run, under `report/`.
    """
    comparison = load_selection(tracking_uri, experiment, selection)
    page = write_report(comparison, out_dir)
    if comparison.run_id:
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
    key = artifact_key("comparison", comparison.experiment)
    said = "\n\n".join(findings(comparison))
    create_table_artifact(table=table_cells(rows), key=key, description=said)
    text = f"{said}\n\n{render_markdown(rows)}\n{' '.join(notes(comparison))}\n"
    create_markdown_artifact(markdown=text, key=f"{key}-summary")


if __name__ == "__main__":
    from tasks.alone import run_task

    run_task("report")
