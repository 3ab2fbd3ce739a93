"""One temporary Prefect server for all flow tests, and a small configuration that trains in seconds."""

from __future__ import annotations

import pytest

from flows.environment import set_up_environment

set_up_environment()

from sara.config import CompareConfig  # noqa: E402 - Prefect reads the environment when it is imported


@pytest.fixture(scope="session")
def prefect_server():
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def small(tmp_path) -> CompareConfig:
    """Two strategies, two steps of four groups, twelve held-out problems."""
    return CompareConfig(
        name="small",
        output_dir=tmp_path / "outputs",
        strategies=("ds", "sara"),
        data={"train_size": 64, "heldout_size": 12, "sizes": {2: 1.0, 3: 1.0}},
        allocation={"groups_per_step": 4, "k": 4, "probe": 2, "increment": 2},
        learner={"learning_rate": 1e-3},
        training={"steps": 2, "evaluate_every": 1, "threads": 1},
        evaluation={"k": 2, "bootstrap": 100},
        tracking={"uri": f"sqlite:///{tmp_path}/records/mlflow.db", "experiment": "tests"},
    )
