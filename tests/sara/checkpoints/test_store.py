"""Checkpoints are whole or not there; a damaged one is named and the one before it used; nothing in them is run."""

import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from sara.checkpoints import Checkpoint, CheckpointStore, SaveFailed


def checkpoint(step: int, score: float | None = None) -> Checkpoint:
    weight = torch.arange(6.0).reshape(2, 3) + step
    weights = {"embed.weight": weight, "head.weight": weight, "norm.weight": torch.full((2,), step / 3)}
    state = {"order": np.arange(10) * step, "cursor": step, "loss": float("nan"), "lr": 1 / (step + 2)}
    return Checkpoint(step, weights, state, {"config": {"seed": 7}}, score)


def complete(folder):
    (folder / "config.json").write_text('{"model_type": "tiny"}')


def assert_same(got: Checkpoint, step: int) -> None:
    expected = checkpoint(step)
    assert got.step == step
    assert got.weights.keys() == expected.weights.keys()
    assert all(torch.equal(got.weights[name], weight) for name, weight in expected.weights.items())
    np.testing.assert_equal(dict(got.state), dict(expected.state))
    assert got.about == expected.about


def test_a_checkpoint_comes_back(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    assert store.load_newest() is None
    path = store.save(checkpoint(3, score=0.25), complete)
    assert_same(store.load_newest(), 3)
    assert store.load_newest().score == 0.25
    names = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    tensors = {"model/model.safetensors", "state.safetensors"}
    assert names == tensors | {"model/config.json", "state.json", "manifest.json", "manifest.sha256"}


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=2, keep_best=1)
    for step, score in [(1, 0.1), (2, 0.9), (3, None), (4, 0.5), (5, None)]:
        store.save(checkpoint(step, score))
    assert store.steps() == [2, 4, 5]
    CheckpointStore(tmp_path, keep_last=1, keep_best=0).save(checkpoint(6))
    assert store.steps() == [6]
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000006"]


FILES = ["manifest.json", "manifest.sha256", "state.json", "state.safetensors", "model/model.safetensors"]


@pytest.mark.parametrize("name", [*FILES, "model/config.json"])
@pytest.mark.parametrize("how", ["truncated", "emptied", "flipped", "removed"])
def test_damage_to_any_file_is_named_and_the_checkpoint_before_is_used(tmp_path, caplog, name, how):
    store, rng = CheckpointStore(tmp_path), random.Random(f"{name} {how}")
    store.save(checkpoint(1), complete)
    path = store.save(checkpoint(2), complete) / name
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    if how == "removed":
        path.unlink()
    else:
        cut = {"truncated": rng.randrange(1, len(content)), "emptied": 0, "flipped": len(content)}[how]
        path.write_bytes(content[:cut] if how == "flipped" else path.read_bytes()[:cut])
    assert_same(store.load_newest(), 1)
    (line,) = caplog.messages
    assert line.startswith("checkpoint of step 2 is damaged, going on from that of step 1: ") and "\n" not in line
    assert ("manifest" if name.startswith("manifest") else str(path)) in line
    store.save(checkpoint(2), complete)
    assert_same(store.load_newest(), 2)


def test_every_bit_is_guarded(tmp_path):
    """Flip single bits all over the small files; each is noticed."""
    store, rng = CheckpointStore(tmp_path), random.Random(0)
    for name in FILES:
        for _ in range(20):
            store.save(checkpoint(1))
            path = store.save(checkpoint(2)) / name
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
            assert store.load_newest().step == 1


def test_if_none_is_intact_nothing_is_begun_again_silently(tmp_path):
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        (store.save(checkpoint(step)) / "state.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(ValueError, match="no checkpoint is intact; remove the folder"):
            store.load_newest()


def test_a_half_written_one_is_not_seen_and_swept_away(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(1))
    (tmp_path / ".step-00000002.partial" / "model").mkdir(parents=True)
    (tmp_path / ".step-00000000.removed").mkdir()
    assert_same(store.load_newest(), 1)
    store.save(checkpoint(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


_SAVE = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from sara.checkpoints import CheckpointStore
from tests.sara.checkpoints.test_store import checkpoint, complete
store = CheckpointStore(Path(sys.argv[1]))
print("ready", flush=True)
for step in range(1, 10**6):
    store.save(checkpoint(step), complete)
"""


def test_a_kill_at_any_moment_of_saving_leaves_an_intact_checkpoint(tmp_path):
    rng, root = random.Random(1), str(Path.cwd())
    command = [sys.executable, "-c", _SAVE, str(tmp_path), root]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout.readline() == "ready\n"
            time.sleep(0.05 + 0.3 * rng.random())
            saver.send_signal(signal.SIGKILL)
        newest = CheckpointStore(tmp_path).load_newest()
        if newest is not None:
            assert_same(newest, newest.step)


def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before_intact(tmp_path):
    """A limit on the size of files stands for the disk: writing beyond it fails in the same places."""
    store = CheckpointStore(tmp_path)
    sizes = {path.stat().st_size for path in store.save(checkpoint(1), complete).rglob("*") if path.is_file()}
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in sorted(size - 1 for size in sizes):  # each file in turn is the first that does not fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(SaveFailed) as caught:
                store.save(checkpoint(2), complete)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert "step-00000002: the checkpoint could not be saved (" in str(caught.value)
        assert "that of step 1 is intact" in str(caught.value) and "\n" not in str(caught.value)
        assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert_same(store.load_newest(), 1)
    store.save(checkpoint(2), complete)
    assert_same(store.load_newest(), 2)


def test_a_pickle_in_place_of_a_file_is_not_run(tmp_path):
    store, ran = CheckpointStore(tmp_path / "c"), tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    store.save(checkpoint(1))
    for name in ("state.json", "state.safetensors", "model/model.safetensors", "manifest.json"):
        (store.save(checkpoint(2)) / name).write_bytes(pickle.dumps(Evil()))
        assert store.load_newest().step == 1
    assert not ran.exists()
