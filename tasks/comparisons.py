"""Reading a comparison back from MLflow, as the plain values that `sara.reporting` works on."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Selection:
    """Which runs to set side by side; the newest comparison or sweep where nothing is said.

    run_ids   comparisons and sweeps, each for all its training runs, or training runs
    sweep     the newest sweep of that name
    tags      training runs that carry all of these
    """

    run_ids: tuple[str, ...] = ()
    sweep: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def load_comparison(tracking_uri: str, experiment: str, run_id: str | None = None) -> Comparison:
    """The comparison or sweep of `run_id`, or the newest one of the experiment."""
    return load_selection(tracking_uri, experiment, Selection((run_id,) if run_id else ()))


def load_selection(tracking_uri: str, experiment: str, selection: Selection) -> Comparison:
    """The selected training runs; where their settings differ, each is named by what sets it apart.

    Of several runs with one strategy, seed and settings (a retry), the newest that finished counts. Raises
    TrackingError when there is none, and says what there is.
    """
    client = open_client(tracking_uri, must_exist=True)
    with readable_errors(tracking_uri):
        experiment_id = _experiment_id(client, experiment)
        parents, children = _select(client, experiment_id, experiment, selection)
        variants = _variants(children)
        chosen = _one_of_each(children, variants)
        has_algorithms = len({_algorithm(run) for run in chosen}) > 1
        runs = tuple(_training_run(client, run, variants[run.info.run_id], has_algorithms) for run in chosen)
        only = parents[0] if len(parents) == 1 else None
        return Comparison(
            name=(only.info.run_name or only.info.run_id) if only else _name(selection, chosen),
            runs=runs,
            base=_base(client, only, runs),
            params=_common_params(chosen) | (dict(only.data.params) if only else {}),
            run_id=only.info.run_id if only else "",
            status=only.info.status if only else "FINISHED",
            experiment=experiment,
            started=f"{datetime.fromtimestamp(_started(only, chosen) / 1000, UTC):%Y-%m-%d %H:%M} UTC",
        )


def _select(
    client: "MlflowClient", experiment_id: str, experiment: str, selection: Selection
) -> tuple[list["MlflowRun"], list["MlflowRun"]]:
    """The comparisons and sweeps that were named, and all training runs, newest first."""
    if selection.tags:
        return [], _tagged(client, experiment_id, selection.tags)
    if selection.sweep:
        named = [_newest(client, experiment_id, experiment, {"sara.kind": "sweep", "sara.sweep": selection.sweep})]
    elif selection.run_ids:
        named = [_named_run(client, experiment_id, run_id) for run_id in selection.run_ids]
    else:
        named = [_newest(client, experiment_id, experiment, {})]
    parents = [run for run in named if _kind(run) in _PARENTS]
    children = [run for run in named if _kind(run) == "training"]
    for parent in parents:
        filter_string = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
        own = _search(client, parent.info.experiment_id, filter_string)
        found = [run for run in own if _kind(run) == "training"]
        if not found:
            raise TrackingError(
                f"{_kind(parent)} {_named(parent)} of experiment {experiment!r} has no training run yet"
            )
        children += found
    return parents, children


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


def _experiment_id(client: "MlflowClient", experiment: str) -> str:
    found = client.get_experiment_by_name(experiment)
    if found is None:
        names = [repr(known.name) for known in client.search_experiments(max_results=20) if known.name != "Default"]
        raise TrackingError(f"no experiment {experiment!r}; {_listed('there is', names)}")
    return found.experiment_id


def _newest(client: "MlflowClient", experiment_id: str, experiment: str, tags: Mapping[str, str]) -> "MlflowRun":
    """The newest comparison or sweep with the tags."""
    found = [run for run in _search(client, experiment_id, _tag_filter(tags)) if _kind(run) in _PARENTS]
    if found:
        return found[0]
    if tags:
        names = {run.data.tags["sara.sweep"] for run in _search(client, experiment_id, "tags.`sara.kind` = 'sweep'")}
        there = _listed("it holds", sorted(repr(name) for name in names))
        raise TrackingError(f"experiment {experiment!r} holds no sweep {tags['sara.sweep']!r}; {there}")
    others = [_named(run) for run in _search(client, experiment_id, "")]
    raise TrackingError(f"experiment {experiment!r} holds no comparison; {_listed('it holds', others)}")


def _tagged(client: "MlflowClient", experiment_id: str, tags: Mapping[str, str]) -> list["MlflowRun"]:
    found = _search(client, experiment_id, _tag_filter({"sara.kind": "training", **tags}))
    if not found:
        said = ", ".join(f"{name}={value}" for name, value in tags.items())
        known = {
            name for run in _search(client, experiment_id, "tags.`sara.kind` = 'training'") for name in run.data.tags
        }
        there = _listed("their tags are", sorted(repr(name) for name in known if not name.startswith("mlflow.")))
        raise TrackingError(f"no training run has the tags {said}; {there}")
    return found


def _tag_filter(tags: Mapping[str, str]) -> str:
    for name, value in tags.items():
        if set("`'\"") & set(name + value):
            raise TrackingError(f"tag {name}={value}: quotes are not allowed")
    return " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())


def _named_run(client: "MlflowClient", experiment_id: str, run_id: str) -> "MlflowRun":
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        there = [_named(known) for known in _search(client, experiment_id, "") if _kind(known) in _PARENTS]
        raise TrackingError(
            f"run {run_id!r}: no such run; {_listed('its comparisons and sweeps are', there)}"
        ) from None
    if _kind(run) not in (*_PARENTS, "training"):
        raise TrackingError(
            f"run {_named(run)} is of kind {_kind(run)!r}, expected 'comparison', 'sweep' or 'training'"
        )
    return run


def _kind(run: "MlflowRun") -> str | None:
    return run.data.tags.get("sara.kind")


def _variants(runs: Sequence["MlflowRun"]) -> dict[str, str]:
    """What sets each run apart from the others beside strategy and seed: `k=8, tau_low=0.3`; empty if nothing does."""
    params = {run.info.run_id: run.data.params for run in runs}
    keys = sorted({key for of_run in params.values() for key in of_run if not key.startswith(_NOT_A_VARIANT)})
    differing = [key for key in keys if len({of_run.get(key) for of_run in params.values()}) > 1]
    short = {key: key.rsplit(".", 1)[-1] for key in differing}
    names = {key: name if list(short.values()).count(name) == 1 else key for key, name in short.items()}
    return {
        run_id: ", ".join(f"{names[key]}={of_run.get(key, 'unset')}" for key in differing)
        for run_id, of_run in params.items()
    }


_PARENTS = ("comparison", "sweep")
_NOT_A_VARIANT = (
    *("name", "strategy", "seed", "learner.advantage"),
    *("output_dir", "tracking.", "training.threads"),
)
"""Settings that are named elsewhere, or say only where a run was kept or how fast it was."""


def _common_params(runs: Sequence["MlflowRun"]) -> dict[str, str]:
    """The settings that all runs share."""
    first, *others = [run.data.params for run in runs]
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _name(selection: Selection, runs: Sequence["MlflowRun"]) -> str:
    said = ", ".join(f"{name}={value}" for name, value in selection.tags.items())
    return said or f"{len(runs)} runs"


def _started(parent: "MlflowRun | None", runs: Sequence["MlflowRun"]) -> int:
    return parent.info.start_time if parent else min(run.info.start_time for run in runs)


def _search(client: "MlflowClient", experiment_id: str, filter_string: str) -> list["MlflowRun"]:
    """Newest first."""
    return list(
        client.search_runs(
            [experiment_id], filter_string, max_results=_MAX_RUNS, order_by=["attributes.start_time DESC"]
        )
    )


def _one_of_each(newest_first: Sequence["MlflowRun"], variants: Mapping[str, str]) -> list["MlflowRun"]:
    finished_first = sorted(newest_first, key=lambda run: run.info.status != "FINISHED")
    chosen: dict[tuple[str, int, str, str], MlflowRun] = {}
    for run in finished_first:
        chosen.setdefault((*_identity(run), _algorithm(run), variants[run.info.run_id]), run)
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


def _training_run(client: "MlflowClient", run: "MlflowRun", variant: str, has_algorithms: bool) -> TrainingRun:
    strategy, seed = _identity(run)
    if has_algorithms:
        strategy = with_algorithm(strategy, _algorithm(run))
    metrics = histories(client, run.info.run_id)
    return TrainingRun(strategy, seed, metrics, run.info.run_name or "", run.info.run_id, run.info.status, variant)


def _base(client: "MlflowClient", parent: "MlflowRun | None", runs: Sequence[TrainingRun]) -> dict[str, float]:
    """The evaluation of the untrained model, which every run shares: the parent's, else a child's."""
    of_parent = [histories(client, parent.info.run_id)] if parent else []
    candidates = [*of_parent, *(run.metrics for run in runs)]
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
