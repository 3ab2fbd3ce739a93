"""The paper's tables at their smallest: two sweeps by one flow, each with its own result, and gone on with."""

from __future__ import annotations

import pytest
from prefect.states import State

from flows.reproduce import reproduce
from sara.experiments import ReproduceConfig

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def tables(small) -> ReproduceConfig:
    """Two ablations of one cell each."""
    kept = small.model_dump(include={"data", "allocation", "learner", "training", "evaluation"})
    kept["training"] |= {"steps": 1, "evaluate_every": 0}
    of_cells = {"strategies": ["sara"], "points": [{"allocation.alpha0": 0.5}], "grid": {}}
    return ReproduceConfig(
        tables=("prior", "threshold"),
        scale="small",
        seeds=(0,),
        settings=kept | of_cells,
        output_dir=small.output_dir,
        tracking=small.tracking,
    )


def run(config: ReproduceConfig) -> State:
    return reproduce(config, return_state=True)


def test_every_table_is_a_sweep_of_its_own_and_is_gone_on_with(tables):
    state = run(tables)
    assert state.is_completed(), state.message
    first = state.result().tables
    assert [table.name for table in first] == ["prior", "threshold"]
    for table in first:
        assert [cell.status for cell in table.result.cells] == ["finished"]
        assert table.result.folder.name == f"small-{table.name}"
        assert "SARA" in table.result.report.read_text(encoding="utf-8")
    again = run(tables).result().tables
    assert [cell.status for table in again for cell in table.result.cells] == ["was finished"] * 2
    assert [table.result.mlflow_run_id for table in again] == [table.result.mlflow_run_id for table in first]


def test_a_table_that_cannot_be_made_is_named_and_the_others_are_tried(tables):
    state = run(tables.model_copy(update={"settings": tables.settings | {"model.path": "absent/model"}}))
    assert state.is_failed()
    assert state.message.count("model.path = 'absent/model'") == 2
    assert state.message.startswith("prior: ") and "; threshold: " in state.message
