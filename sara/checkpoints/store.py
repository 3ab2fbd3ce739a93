"""The checkpoints of a run: saved whole or not at all, the last few and the best kept, the newest intact one read.

Layout of one, `step-00000012/`:

    manifest.json, manifest.sha256   size and SHA-256 of every file, and what the run was
    model/                           weights as safetensors, and whatever makes the folder a model that loads
    state.json, state.safetensors    everything else

A name that starts with a dot is being written or being removed; `...-damaged` was found not to be as it was written.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from sara.checkpoints.codec import decode, encode
from sara.checkpoints.files import Damaged, read_manifest, seal, sync, verify

_NAME = re.compile(r"step-(\d{8,})")
_log = logging.getLogger(__name__)


class SaveFailed(RuntimeError):
    """A checkpoint could not be written; earlier ones are as they were."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps.

    weights   of the model by name; tied ones may be one tensor under several names
    state     everything else, nested; see `codec.encode` for what it may hold
    about     what the run was, as JSON: configuration, versions, ...
    score     what "best" means, higher is better; None if it was not measured at this step
    """

    step: int
    weights: Mapping[str, Tensor]
    state: Mapping[str, Any]
    about: Mapping[str, Any]
    score: float | None = None


class CheckpointStore:
    """A folder of checkpoints, written by one run at a time.

    keep_last   newest ones that are kept, at least 1
    keep_best   further ones that are kept for their score
    """

    def __init__(self, folder: Path, keep_last: int = 2, keep_best: int = 1) -> None:
        self.folder, self.keep_last, self.keep_best = folder, keep_last, keep_best

    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, rising; whether each is intact is not looked at."""
        names = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*"))
        return sorted(int(name[1]) for name in names if name)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint, complete: Callable[[Path], None] = lambda folder: None) -> Path:
        """Write a checkpoint beside its place, sync it, rename it, then remove those that are not kept.

        complete   given the model's folder, adds what makes it loadable: configuration, tokenizer
        Raises SaveFailed (disk full, ...); nothing half-written is left, and no earlier checkpoint is touched.
        """
        target = self.path(checkpoint.step)
        partial = target.with_name(f".{target.name}.partial")
        try:
            self._sweep()
            _write(checkpoint, partial, complete)
            if target.exists():
                self._remove(target)
            partial.rename(target)
            sync(self.folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            kept = f"that of step {self.steps()[-1]} is intact" if self.steps() else "there is none before it"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SaveFailed(f"{target}: the checkpoint could not be saved ({reason}); {kept}") from error
        self._prune()
        return target

    def load_newest(self) -> Checkpoint | None:
        """The newest checkpoint that is as it was written; None if none was ever saved.

        A damaged one is named in a warning and set aside. Raises ValueError if all of them are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return _read(self.path(step))
            except Damaged as damage:
                self._set_aside(self.path(step))
                before = [other for other in steps if other < step]
                then = f"going on from that of step {before[-1]}" if before else "there is none before it"
                _log.warning("checkpoint of step %d is damaged, %s: %s", step, then, damage)
        if steps or any(self.folder.glob("step-*-damaged")):
            raise ValueError(f"{self.folder}: no checkpoint is intact; remove the folder to begin again at step 1")
        return None

    def _set_aside(self, path: Path) -> None:
        """Kept to be looked at, one for each step."""
        aside = path.with_name(f"{path.name}-damaged")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)

    def _prune(self) -> None:
        steps = self.steps()
        kept = set(steps[-self.keep_last :])
        scores = {step: score for step in steps if (score := self._score(step)) is not None}
        best = sorted(scores, key=lambda step: (scores[step], step), reverse=True)[: self.keep_best]
        for step in set(steps) - kept - set(best):
            self._remove(self.path(step))

    def _score(self, step: int) -> float | None:
        try:
            return read_manifest(self.path(step))["score"]
        except Damaged:
            return None

    def _remove(self, path: Path) -> None:
        """First renamed: half a folder must never look like a checkpoint."""
        doomed = path.with_name(f".{path.name}.removed")
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what a kill left behind."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(".step-*"):
            shutil.rmtree(left)


def _write(checkpoint: Checkpoint, folder: Path, complete: Callable[[Path], None]) -> None:
    (folder / "model").mkdir(parents=True)
    complete(folder / "model")
    weights, tied = _without_ties(checkpoint.weights)
    # "format" is what transformers looks for; nothing but text may stand here.
    save_file(weights, folder / "model" / "model.safetensors", {"format": "pt", "tied": json.dumps(tied)})
    tree, tensors = encode(dict(checkpoint.state))
    save_file(tensors, folder / "state.safetensors")
    (folder / "state.json").write_text(json.dumps(tree, allow_nan=False), encoding="utf-8")
    seal(folder, {"step": checkpoint.step, "score": checkpoint.score, "about": dict(checkpoint.about)})


def _read(folder: Path) -> Checkpoint:
    manifest = verify(folder)
    path = folder / "model" / "model.safetensors"
    with safe_open(path, "pt") as file:
        tied = json.loads(file.metadata()["tied"])
    weights = load_file(path)
    weights |= {name: weights[kept] for name, kept in tied.items()}
    tree = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    state = decode(tree, load_file(folder / "state.safetensors"))
    return Checkpoint(manifest["step"], weights, state, manifest["about"], manifest["score"])


def _without_ties(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, and the other names of those that have several."""
    first: dict[tuple, str] = {}
    kept: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, weight in weights.items():
        same = (
            (weight.data_ptr(), weight.shape, weight.stride(), weight.dtype, weight.device) if weight.numel() else name
        )
        if same in first:
            tied[name] = first[same]
        else:
            first[same] = name
            kept[name] = weight.detach().cpu().contiguous()
    return kept, tied
