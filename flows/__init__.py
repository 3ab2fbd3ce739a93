"""Prefect flows and the command line: composition only."""
