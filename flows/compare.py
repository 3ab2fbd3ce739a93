"""The comparison: every strategy trains the same model on the same problems, and all are set side by side."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from pydantic import BaseModel

from flows.environment import default_tracking
from flows.naming import tag_run
from sara.config import CompareConfig, RunConfig
from tasks.artifacts import publish_run_link
from tasks.cancelling import cancelled_in_prefect
from tasks.evaluate import evaluate_model, responses_path
from tasks.mlflow_runs import comparison_run
from tasks.prepare import prepare_data
from tasks.report import make_report
from tasks.resuming import keep_config, require_same_settings
from tasks.retries import is_retry
from tasks.run_folder import claim_folder
from tasks.stopping import StopSwitch
from tasks.sync import is_delivered
from tasks.tracking import is_recorded, mlflow_run_id
from tasks.train import train


class ComparisonResult(BaseModel):
    """Where a comparison's results are; without a report, which is made from MLflow, if that was not reached."""

    folder: Path
    report: Path | None
    mlflow_run_id: str | None


@flow(name="compare", flow_run_name="compare {config.name}")
def compare(config: CompareConfig, resume: bool = False, allow: tuple[str, ...] = ()) -> ComparisonResult:
    """Train the model with every strategy and seed, evaluate each, and report them side by side.

    Prepares the data, evaluates the base model, then for each seed and strategy trains and evaluates,
    and writes the report. One MLflow run for the comparison, a child for each training run.

    resume   go on with the newest comparison of this name, if there is one: what has finished is not run again, what
             was interrupted goes on; a retry always does
    allow    settings that are meant to differ from those that it was started with, such as strategies or seeds
    """
    tag_run("compare", f"data:{config.data.train}")
    config = default_tracking(config)
    with cancelled_in_prefect() as cancellation, StopSwitch() as switch, switch.interruptible():
        return _compare(config, resume or is_retry(), allow)
    return cancellation.state


def _compare(config: CompareConfig, goes_on: bool, allow: tuple[str, ...]) -> ComparisonResult:
    with claim_folder(config.output_dir / config.name, goes_on) as folder:
        require_same_settings(config, folder, allow)
        data = prepare_data(config, folder / "data")
        keep_config(config, folder)
        of_a_run = [name for name in allow if name.partition(".")[0] in RunConfig.model_fields]
        with comparison_run(config, data, folder):
            if not is_recorded(folder, "eval/accuracy", step=0):
                evaluate_model(config, data, folder, step=0, folder=folder)
            for run in config.runs():
                run = run.in_folder(folder)
                trained = train(run, data, folder, resume=goes_on, allow=of_a_run)
                if not is_recorded(trained.folder, "eval/gain", trained.steps):
                    evaluate_model(
                        run.with_model(trained.model_path),
                        data,
                        trained.folder,
                        trained.steps,
                        trained.folder,
                        base_responses=responses_path(folder, step=0),
                    )
        has_records = is_delivered(folder, config.tracking.wait_s)
        publish_run_link(config.tracking, folder, "comparison")
        run_id = mlflow_run_id(folder)
        tracking = config.tracking
        report = make_report(tracking.uri, tracking.experiment, folder / "report", run_id) if has_records else None
    return ComparisonResult(folder=folder, report=report, mlflow_run_id=run_id)
