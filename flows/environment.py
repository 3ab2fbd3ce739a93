"""Where a flow runs: the tracking store and the Prefect server that the environment names."""

from __future__ import annotations

import os
from typing import TypeVar

from sara.config import ExperimentConfig, TrackingConfig
from tasks.environment import set_up_environment

__all__ = ["check_prefect", "default_tracking", "set_up_environment"]

Config = TypeVar("Config", bound=ExperimentConfig)


def default_tracking(config: Config) -> Config:
    """The configuration, with MLFLOW_TRACKING_URI in place of the default store where that is set.

    A URI that the configuration names itself is kept. So a worker in a container or on another machine records
    on the server that its environment names, whatever a form leaves at its default.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri or config.tracking.uri != TrackingConfig.model_fields["uri"].default:
        return config
    return config.model_copy(update={"tracking": config.tracking.model_copy(update={"uri": uri})})


def check_prefect(executor: str = "local") -> None:
    """Raises ValueError, within seconds, if the Prefect server that is set does not answer.

    None need be set, but for an executor whose cells run elsewhere.
    """
    from flows.server import api_url, check_server, require_server

    url = api_url()
    if executor != "local":
        require_server(f"executor = {executor!r}")
    elif url is not None:
        check_server(url)
