"""Settings of Prefect, MLflow and torch that have to stand in the environment before they are imported."""

from __future__ import annotations

import os
from pathlib import Path

_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}


def set_up_environment(is_verbose: bool = False) -> None:
    """Fill in what the user has not set; call before Prefect is imported.

    Prefect's own log is shown only when verbose: the command line says what went wrong in one line.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    for name in ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_INTERNAL_LEVEL"):
        os.environ.setdefault(name, "INFO" if is_verbose else "CRITICAL")
    home = Path(os.environ.get("PREFECT_HOME", Path.home() / ".prefect"))
    home.mkdir(parents=True, exist_ok=True)  # Prefect's temporary server does not make it
