"""One GPU, one run: what the lock is on, and that it goes with the process that holds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tasks.devices import _held, hold_device, lock_path


@pytest.mark.parametrize(
    ("visible", "index", "gpu"),
    [(None, 0, "0"), ("", 1, "1"), ("2,3", 0, "2"), ("2,3", 1, "3"), ("GPU-8f2a, GPU-77aa", 1, "GPU-77aa")],
)
def test_the_lock_is_the_machine_s_gpu_whatever_a_process_calls_it(visible, index, gpu):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert lock_path(index, environment).name == f"sara-gpu-{gpu}.lock"


def test_cpus_are_shared():
    with hold_device("cpu"), hold_device("cpu"):
        pass


def test_a_device_that_is_not_there_is_one_line():
    with pytest.raises(ValueError, match=r"model\.device = 'cuda:99'"), hold_device("cuda:99"):
        pass


def test_a_killed_holder_frees_its_gpu(tmp_path):
    path = tmp_path / "gpu.lock"
    code = f"""
import time
from pathlib import Path
from tasks.devices import _held
with _held(Path({str(path)!r}), "cuda:0"):
    print("held", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait()
        with _held(path, "cuda:0"):
            pass
