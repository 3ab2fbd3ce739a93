"""Failures of a run that no setting is to blame for; the text of each is one line for people."""


class RunFailure(RuntimeError):
    """A run cannot go on: what it had reached is kept."""
