"""A handful of kills with SIGKILL; `benchmarks/chaos.py` makes fifty."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_run_that_is_killed_again_and_again_ends_as_one_left_alone(tmp_path):
    command = [sys.executable, "-m", "benchmarks.chaos", "--kills", "6", "--steps", "4", "--seed", "0"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=err, timeout=1500, check=False)
    assert done.returncode == 0, (tmp_path / "err").read_text()[-3000:]
    report = json.loads((tmp_path / "out").read_text())
    assert report["struck"] == dict.fromkeys(["round", "line", "saving", "saved", "delivered", "time"], 1)
    assert report["values in a run"] > 200
    assert set(report["same"].values()) == {True} and len(report["same"]) == 7
