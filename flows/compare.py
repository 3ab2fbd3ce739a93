"""The comparison: every strategy trains the same model on the same problems, and all are set side by side."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from pydantic import BaseModel

from sara.config import CompareConfig
from tasks.evaluate import evaluate_model, responses_path
from tasks.mlflow_runs import comparison_run
from tasks.prepare import prepare_data
from tasks.report import make_report
from tasks.run_folder import claim_folder
from tasks.sync import is_delivered
from tasks.tracking import mlflow_run_id
from tasks.train import train


class ComparisonResult(BaseModel):
    """Where a comparison's results are; without a report, which is made from MLflow, if that was not reached."""

    folder: Path
    report: Path | None
    mlflow_run_id: str | None


@flow(name="compare", flow_run_name="compare {config.name}")
def compare(config: CompareConfig) -> ComparisonResult:
    """Train the model with every strategy and seed, evaluate each, and report them side by side.

    Prepares the data, evaluates the base model, then for each seed and strategy trains and evaluates,
    and writes the report. One MLflow run for the comparison, a child for each training run.
    """
    with claim_folder(config.output_dir / config.name) as folder:
        data = prepare_data(config, folder / "data")
        with comparison_run(config, data, folder):
            evaluate_model(config, data, folder, step=0, folder=folder)
            for run in config.runs():
                run = run.in_folder(folder)
                trained = train(run, data, folder)
                evaluate_model(
                    run.with_model(trained.model_path),
                    data,
                    trained.folder,
                    trained.steps,
                    trained.folder,
                    base_responses=responses_path(folder, step=0),
                )
        has_records = is_delivered(folder, config.tracking.wait_s)
        run_id = mlflow_run_id(folder)
        tracking = config.tracking
        report = make_report(tracking.uri, tracking.experiment, folder / "report", run_id) if has_records else None
    return ComparisonResult(folder=folder, report=report, mlflow_run_id=run_id)
