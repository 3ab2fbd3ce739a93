"""Any runs of a store side by side: by id, by sweep, by tag; and one line for what is not there."""

from __future__ import annotations

import pytest

from sara.config import TrackingConfig
from tasks.comparisons import Selection, load_selection
from tasks.tracking import TrackingError, open_run


@pytest.fixture(scope="module")
def tracking(tmp_path_factory) -> TrackingConfig:
    return TrackingConfig(uri=f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db", experiment="any")


@pytest.fixture(scope="module")
def ids(tracking, tmp_path_factory) -> dict[tuple[int, int], str]:
    """Training runs by (k, seed), all of one batch."""
    found = {}
    for k, seed in ((8, 0), (8, 1), (16, 0)):
        tags = {"sara.kind": "training", "sara.strategy": "sara", "sara.seed": str(seed), "batch": "first"}
        params = {"seed": seed, "name": f"{k}-{seed}", "allocation": {"k": k, "probe": 4}, "tracking": {"uri": str(k)}}
        with open_run(tracking, tmp_path_factory.mktemp("run"), "run", tags, params) as run:
            run.log({"eval/accuracy": 0.5}, step=1)
        found[k, seed] = run.id
    return found


def test_runs_by_tag_are_named_by_what_sets_them_apart(tracking, ids):
    found = load_selection(tracking.uri, "any", Selection(tags={"batch": "first"}))
    assert found.strategies() == ("sara · k=8", "sara · k=16")
    assert [len(found.of(name)) for name in found.strategies()] == [2, 1]
    assert found.params == {"allocation.probe": "4"}
    assert found.run_id == ""


def test_runs_by_id_that_differ_in_the_seed_alone_are_one_group(tracking, ids):
    found = load_selection(tracking.uri, "any", Selection((ids[8, 0], ids[8, 1])))
    assert found.strategies() == ("sara",)
    assert found.params["allocation.k"] == "8"


@pytest.mark.parametrize(
    ("selection", "line"),
    [
        (Selection(("nope",)), "run 'nope': no such run; its comparisons and sweeps are nothing"),
        (Selection(sweep="swept"), "holds no sweep 'swept'; it holds nothing"),
        (Selection(tags={"colour": "blue"}), "no training run has the tags colour=blue; their tags are 'batch'"),
        (Selection(tags={"colour": "' or 1"}), "quotes are not allowed"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_what_is_not_there_is_one_line(tracking, ids, selection, line):
    with pytest.raises(TrackingError) as caught:
        load_selection(tracking.uri, "any", selection)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
