"""One training run by itself: prepare the data, train, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.environment import default_tracking
from flows.naming import config_tags, tag_run
from sara.config import RunConfig
from tasks.cancelling import cancelled_in_prefect
from tasks.evaluate import evaluate_model
from tasks.prepare import prepare_data
from tasks.resuming import keep_config, require_same_settings
from tasks.retries import is_retry
from tasks.run_folder import claim_folder
from tasks.stopping import StopSwitch
from tasks.tracking import is_recorded
from tasks.train import TrainedRun, train


@flow(name="train", flow_run_name="train {config.strategy} seed {config.seed}")
def train_and_evaluate(config: RunConfig, resume: bool = False, allow: tuple[str, ...] = ()) -> TrainedRun:
    """Train one strategy with one seed and score the model that it ends with.

    resume   go on with the newest run of this name, if there is one; a retry always does
    allow    settings that are meant to differ from those that the run was started with
    """
    tag_run("train", *config_tags(config))
    config = default_tracking(config)
    with cancelled_in_prefect() as cancellation, StopSwitch() as switch, switch.interruptible():
        return _train_and_evaluate(config, resume or is_retry(), allow)
    return cancellation.state


def _train_and_evaluate(config: RunConfig, goes_on: bool, allow: tuple[str, ...]) -> TrainedRun:
    with claim_folder(config.output_dir / config.name, goes_on) as folder:
        require_same_settings(config, folder, allow)
        data = prepare_data(config, folder / "data")
        keep_config(config, folder)
        run = config.in_folder(folder).model_copy(update={"name": "training"})
        trained = train(run, data, resume=goes_on, allow=allow)
        if not is_recorded(trained.folder, "eval/accuracy", trained.steps):
            scored = run.with_model(trained.model_path)
            evaluate_model(scored, data, trained.folder, trained.steps, trained.folder)
    return trained
