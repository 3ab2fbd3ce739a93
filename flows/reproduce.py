"""placeholder"""

from prefect import flow


@flow(name="reproduce")
def reproduce() -> None:
    """Placeholder."""
