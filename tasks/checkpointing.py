"""When a training run is saved, and how it goes on from what was saved."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from sara.checkpoints import Checkpoint, CheckpointStore, SaveFailed
from sara.code_version import code_version, git_commit
from sara.models import save_reader
from sara.training import Trainer
from tasks.prepare import PreparedData
from tasks.tracking import Run

_log = logging.getLogger(__name__)


class Checkpointer:
    """Saves a trainer whose steps are recorded in a run."""

    def __init__(self, trainer: Trainer, run: Run, data: PreparedData) -> None:
        settings = trainer.config.checkpoint
        self.trainer, self.run, self.every = trainer, run, settings.every
        self.store = CheckpointStore(run.folder / "checkpoints", settings.keep_last, settings.keep_best)
        self._hashes = {name: side.content_hash for name, side in data if side is not None}
        self._saved_at = 0

    def restore(self) -> int:
        """Put the trainer where the newest intact checkpoint was; returns its step, 0 if there is none.

        Raises ValueError if it was made with other problems, or if every checkpoint is damaged.
        """
        found = self.store.load_newest()
        if found is None:
            return 0
        if found.about["data"] != self._hashes:
            raise ValueError(
                f"{self.store.path(found.step)}: was made with problems {found.about['data']}, "
                f"those here are {self._hashes}; expected the same"
            )
        if found.about["code_version"] != code_version():
            _log.warning("step %d was reached by other code; from here on, results may differ", found.step)
        self.trainer.load_state_dict(found.state, found.weights)
        self._saved_at = found.step
        return found.step

    def save_if_due(self, score: float | None, is_last: bool) -> None:
        """Save every so many steps, and after the last one."""
        step = self.trainer.step_count
        if is_last or (self.every and step % self.every == 0):
            self.save(score)

    def save(self, score: float | None = None) -> None:
        """Save, unless this step is saved already. A checkpoint that cannot be is a warning, and training goes on."""
        step = self.trainer.step_count
        if step == self._saved_at or step == 0:
            return
        self.run.to_disk()  # a checkpoint must never know of steps that the record of metrics could lose
        state, weights = self.trainer.state_dict(), self.trainer.policy.model.state_dict()
        complete = partial(save_reader, self.trainer.policy)
        try:
            self.store.save(Checkpoint(step, weights, state, self._about(), score), complete)
        except SaveFailed as failure:
            _log.warning("%s; training goes on without it", failure)
            return
        self._saved_at = step

    @property
    def saved_at(self) -> int:
        """The step of the last checkpoint; 0 if there is none."""
        return self._saved_at

    def _about(self) -> dict[str, Any]:
        return {
            "config": self.trainer.config.model_dump(mode="json"),
            "data": self._hashes,
            "mlflow_run_id": self.run.id,
            "run_key": self.run.key,
            "code_version": code_version(),
            "git_commit": git_commit(),
        }


def describe_changes(changed: dict[str, tuple[Any, Any]], step: int) -> dict[str, str]:
    """A tag for each setting that was changed on purpose."""
    return {f"sara.changed.{key}": f"{then} -> {now} after step {step}" for key, (then, now) in changed.items()}
