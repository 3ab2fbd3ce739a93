"""The data by themselves: make or read the problems of an experiment and check that they can be used."""

from __future__ import annotations

from prefect import flow

from flows.environment import default_tracking
from flows.naming import tag_run
from sara.config import RunConfig
from tasks.prepare import PreparedData, prepare_data
from tasks.run_folder import claim_folder


@flow(name="prepare", flow_run_name="prepare {config.data.train} for {config.name}")
def prepare(config: RunConfig) -> PreparedData:
    """Write the training and held-out problems to the run's folder, with the hash of their content.

    Nothing is trained. Use it to look at what a run would see, or to check a data set of your own
    before a machine with a GPU is booked.
    """
    tag_run("prepare", f"data:{config.data.train}")
    config = default_tracking(config)
    with claim_folder(config.output_dir / config.name) as folder:
        return prepare_data(config, folder / "data")
