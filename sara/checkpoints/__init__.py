"""Checkpoints: the state of a run on disk, complete or not there at all, and read without running any code."""

from sara.checkpoints.store import Checkpoint, CheckpointStore, SaveFailed

__all__ = ["Checkpoint", "CheckpointStore", "SaveFailed"]
