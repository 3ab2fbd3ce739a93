"""Prefect tasks: one for each thing you would retry, schedule or re-run alone.

Each is a thin wrapper over one call into `sara`. This is the only package that talks to MLflow.
Never holds arithmetic, and never decides what runs after what: that is `flows`.
"""
