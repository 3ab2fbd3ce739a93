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
from tasks.train import train


class ComparisonResult(BaseModel):
    """Where a comparison's results are."""

    folder: Path
    report: Path
    mlflow_run_id: str


@flow(name="compare", flow_run_name="compare {config.name}")
def compare(config: CompareConfig) -> ComparisonResult:
    """Train the model with every strategy and seed, evaluate each, and report them side by side.

    Prepares the data, evaluates the base model, then for each seed and strategy trains and evaluates,
    and writes the report. One MLflow run for the comparison, a child for each training run.
    """
    with claim_folder(config.output_dir / config.name) as folder:
        data = prepare_data(config, folder / "data")
        with comparison_run(config, data) as mlflow_run_id:
            evaluate_model(config, data, mlflow_run_id, step=0, folder=folder)
            for run in config.runs():
                run = run.in_folder(folder)
                trained = train(run, data, mlflow_run_id)
                evaluate_model(
                    run.with_model(trained.model_path),
                    data,
                    trained.mlflow_run_id,
                    trained.steps,
                    trained.folder,
                    base_responses=responses_path(folder, step=0),
                )
        report = make_report(config.tracking.uri, config.tracking.experiment, folder / "report", mlflow_run_id)
    return ComparisonResult(folder=folder, report=report, mlflow_run_id=mlflow_run_id)
