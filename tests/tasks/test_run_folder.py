"""Run folders: earlier results are never touched, a second writer is refused, a failed start leaves no trace."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tasks.run_folder import FolderInUse, claim_folder


def test_results_of_an_earlier_run_are_kept_and_the_next_run_gets_the_next_number(tmp_path):
    for expected in ("a", "a-2", "a-3"):
        with claim_folder(tmp_path / "a") as folder:
            (folder / "result").write_text(expected)
        assert folder.name == expected
    assert (tmp_path / "a" / "result").read_text() == "a"


def test_a_run_that_wrote_nothing_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="early"), claim_folder(tmp_path / "a"):
        raise RuntimeError("early")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_failed_late_keeps_what_it_wrote(tmp_path):
    with pytest.raises(RuntimeError, match="late"), claim_folder(tmp_path / "a") as folder:
        (folder / "metrics.jsonl").write_text("{}")
        raise RuntimeError("late")
    assert (tmp_path / "a" / "metrics.jsonl").read_text() == "{}"


def test_a_folder_held_by_another_process_is_refused_until_that_process_ends(tmp_path):
    hold = (
        "import sys; from pathlib import Path; from tasks.run_folder import claim_folder\n"
        "with claim_folder(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse, match="a: in use by another run"), claim_folder(tmp_path / "a"):
            pass
        holder.kill()
    with claim_folder(tmp_path / "a") as folder:
        assert folder.name == "a"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match=r"file/a: cannot be used as an output folder"),
        claim_folder(tmp_path / "file" / "a"),
    ):
        pass
