"""Reading a comparison back from MLflow, as the plain values that `sara.reporting` works on."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sara.reporting import Comparison, Series, TrainingRun
from sara.reporting.comparison import with_algorithm
from tasks.tracking_store import TrackingError, open_client, readable_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

_MAX_FLOAT = 1.7976931348623157e308  # what MLflow stores for an infinity
_MAX_RUNS = 5000
_REQUESTS_AT_ONCE = 8


def load_comparison(tracking_uri: str, experiment: str, run_id: str | None = None) -> Comparison:
    """The comparison of `run_id`, or the newest one of the experiment.

    Of several runs with one strategy, algorithm and seed (a retry), the newest that finished counts. Raises
    TrackingError when there is none, and says what there is.
    """
    client = open_client(tracking_uri, must_exist=True)
    with readable_errors(tracking_uri):
        parent = _parent(client, experiment, run_id)
        children = _search(client, parent.info.experiment_id, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
        chosen = _one_of_each([run for run in children if run.data.tags.get("sara.kind") == "training"])
        if not chosen:
            raise TrackingError(f"comparison {_named(parent)} of experiment {experiment!r} has no training run yet")
        has_algorithms = len({_algorithm(run) for run in chosen}) > 1
        runs = tuple(_training_run(client, run, has_algorithms) for run in chosen)
        return Comparison(
            name=parent.info.run_name or parent.info.run_id,
            runs=runs,
            base=_base(client, parent, runs),
            params=dict(parent.data.params),
            run_id=parent.info.run_id,
            experiment=experiment,
            started=f"{datetime.fromtimestamp(parent.info.start_time / 1000, UTC):%Y-%m-%d %H:%M} UTC",
        )


def histories(client: "MlflowClient", run_id: str) -> dict[str, Series]:
    """Every metric of a run; of a step logged more than once, the last value logged."""
    names = list(client.get_run(run_id).data.metrics)
    if not client.tracking_uri.startswith("http"):
        return {name: _history(client, run_id, name) for name in names}
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:  # a server answers each metric separately
        found = pool.map(lambda name: _history(client, run_id, name), names)
        return dict(zip(names, found, strict=True))


def _history(client: "MlflowClient", run_id: str, name: str) -> Series:
    logged = sorted(client.get_metric_history(run_id, name), key=lambda m: (m.step, m.timestamp))
    return Series.from_points((m.step, _restored(m.value)) for m in logged)


def _restored(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= _MAX_FLOAT else value


def _parent(client: "MlflowClient", experiment: str, run_id: str | None) -> "MlflowRun":
    found = client.get_experiment_by_name(experiment)
    if found is None:
        names = [repr(known.name) for known in client.search_experiments(max_results=20) if known.name != "Default"]
        raise TrackingError(f"no experiment {experiment!r}; {_listed('there is', names)}")
    if run_id is not None:
        return _checked_parent(client, run_id)
    comparisons = _search(client, found.experiment_id, "tags.`sara.kind` = 'comparison'")
    if not comparisons:
        others = [_named(run) for run in _search(client, found.experiment_id, "")]
        raise TrackingError(f"experiment {experiment!r} holds no comparison; {_listed('it holds', others)}")
    return comparisons[0]


def _checked_parent(client: "MlflowClient", run_id: str) -> "MlflowRun":
    run = client.get_run(run_id)
    kind = run.data.tags.get("sara.kind")
    if kind == "comparison":
        return run
    parent = run.data.tags.get("mlflow.parentRunId")
    hint = f"; it belongs to the comparison {parent}" if parent else ""
    raise TrackingError(f"run {_named(run)} is of kind {kind!r}, expected 'comparison'{hint}")


def _search(client: "MlflowClient", experiment_id: str, filter_string: str) -> list["MlflowRun"]:
    """Newest first."""
    return list(
        client.search_runs(
            [experiment_id], filter_string, max_results=_MAX_RUNS, order_by=["attributes.start_time DESC"]
        )
    )


def _one_of_each(newest_first: Sequence["MlflowRun"]) -> list["MlflowRun"]:
    finished_first = sorted(newest_first, key=lambda run: run.info.status != "FINISHED")
    chosen: dict[tuple[str, int, str], MlflowRun] = {}
    for run in finished_first:
        chosen.setdefault((*_identity(run), _algorithm(run)), run)
    return [chosen[key] for key in sorted(chosen)]


def _identity(run: "MlflowRun") -> tuple[str, int]:
    tags = run.data.tags
    try:
        return tags["sara.strategy"], int(tags["sara.seed"])
    except (KeyError, ValueError):
        raise TrackingError(
            f"run {_named(run)}: tags sara.strategy = {tags.get('sara.strategy')!r}, "
            f"sara.seed = {tags.get('sara.seed')!r}; expected a name and a whole number"
        ) from None


def _algorithm(run: "MlflowRun") -> str:
    return run.data.tags.get("sara.algorithm", "")


def _training_run(client: "MlflowClient", run: "MlflowRun", has_algorithms: bool) -> TrainingRun:
    strategy, seed = _identity(run)
    if has_algorithms:
        strategy = with_algorithm(strategy, _algorithm(run))
    metrics = histories(client, run.info.run_id)
    return TrainingRun(strategy, seed, metrics, run.info.run_name or "", run.info.run_id, run.info.status)


def _base(client: "MlflowClient", parent: "MlflowRun", runs: Sequence[TrainingRun]) -> dict[str, float]:
    """The evaluation of the untrained model, which every run shares: the parent's, else a child's."""
    candidates = [histories(client, parent.info.run_id), *(run.metrics for run in runs)]
    for metrics in candidates:
        at_start = {name: series.at(0) for name, series in metrics.items() if name.startswith("eval/")}
        if at_start.get("eval/accuracy") is not None:
            return {name: value for name, value in at_start.items() if value is not None}
    return {}


def _named(run: "MlflowRun") -> str:
    return f"{run.info.run_name!r} ({run.info.run_id})"


def _listed(lead: str, names: Sequence[str]) -> str:
    if not names:
        return f"{lead} nothing"
    shown = ", ".join(names[:5])
    return f"{lead} {shown}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")
