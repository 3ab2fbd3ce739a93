"""Commands that need neither Prefect nor MLflow: one file each, registered by `flows.cli`."""
