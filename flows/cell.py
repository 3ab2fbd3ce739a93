"""One cell of a sweep: prepare, train, evaluate, and leave the result that says it is done.

Started by `sweep` in its own process, on a work pool or on Ray; everything it needs is in its parameters.
Its annotations are not postponed (`from __future__`): in a Ray worker Prefect cannot resolve them then.
"""

from pathlib import Path

from prefect import flow

from flows.naming import config_tags, tag_run
from sara.code_version import code_version
from sara.config import RunConfig
from sara.sweeps import base_key
from tasks.cancelling import cancelled_in_prefect
from tasks.cells import CellOrder, CellResult, cell_tags, hold, read_result, read_scores, write_result, write_scores
from tasks.evaluate import evaluate_model, responses_path
from tasks.prepare import PreparedData, data_hashes, prepare_data
from tasks.stopping import StopSwitch
from tasks.tracking import reopen_run
from tasks.train import TrainedRun, train


@flow(name="cell", flow_run_name="{order.sweep}: {order.label}")
def run_cell(config: RunConfig, order: CellOrder) -> CellResult:
    """Train and evaluate one cell of a sweep, unless its folder holds its result already.

    A cell that was interrupted goes on from its last checkpoint. Raises ValueError if the data here are
    not those that the sweep was planned with.
    """
    tag_run(*config_tags(config), f"sweep:{order.sweep}", f"cell:{order.key}")
    with cancelled_in_prefect() as cancellation, StopSwitch() as switch, switch.interruptible():
        return _run_cell(config, order)
    return cancellation.state


def _run_cell(config: RunConfig, order: CellOrder) -> CellResult:
    with hold(order.folder, "this cell") as folder:
        done = read_result(folder, order.key)
        if done is not None:
            return done
        data = prepare_data(config, folder / "data")
        _require_same_data(order, data)
        run = config.in_folder(folder).model_copy(update={"name": "training"})
        trained = train(run, data, order.sweep_folder, tags=cell_tags(order), resume=True)
        base_folder = order.sweep_folder / "bases" / base_key(config, data.heldout.content_hash)
        base = _score_base(run, data, trained, base_folder)
        scores = evaluate_model(
            run.with_model(trained.model_path), data, trained.folder, trained.steps, trained.folder, base
        )
        result = _result(config, order, trained, scores)
        write_result(folder, result)
    return result


def _score_base(config: RunConfig, data: PreparedData, trained: TrainedRun, folder: Path) -> Path:
    """Graded responses of the model before training, made by the first cell that needs them; scored in each run."""
    with hold(folder, "the base model's evaluation", is_waiting=True):
        scores = read_scores(folder)
        if scores is None:
            scores = evaluate_model(config, data, trained.folder, step=0, folder=folder)
            write_scores(folder, scores)
        else:
            with reopen_run(trained.folder, config.tracking.wait_s) as run:
                run.log(scores, step=0)
    return responses_path(folder, step=0)


def _require_same_data(order: CellOrder, data: PreparedData) -> None:
    here = data_hashes(data)
    if here != order.data_hashes:
        shown, planned = ({side: found[:8] for side, found in hashes.items()} for hashes in (here, order.data_hashes))
        raise ValueError(
            f"cell {order.label}: the data here are {shown}, the sweep was planned with {planned}; "
            "expected the same data on every worker"
        )


def _result(config: RunConfig, order: CellOrder, trained: TrainedRun, scores: dict[str, float]) -> CellResult:
    return CellResult(
        key=order.key,
        label=order.label,
        strategy=config.strategy,
        seed=config.seed,
        point=order.point,
        folder=order.folder,
        model_path=trained.model_path,
        tracking_uri=config.tracking.uri,
        mlflow_run_id=trained.mlflow_run_id,
        scores=scores,
        code_version=code_version(),
    )
