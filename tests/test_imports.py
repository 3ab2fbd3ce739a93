"""Imports point one way: flows -> tasks -> sara, and the allocator brings no deep-learning library along."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "transformers", "vllm", "prefect", "mlflow")


def imported_packages(path: Path) -> set[str]:
    """Top-level names that a file imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def offenders(package: str, forbidden: set[str]) -> dict[str, set[str]]:
    files = sorted((ROOT / package).rglob("*.py"))
    found = {str(file.relative_to(ROOT)): imported_packages(file) & forbidden for file in files}
    return {file: names for file, names in found.items() if names}


MODEL_FREE = (
    *("sara.allocation", "sara.selection", "sara.strategies", "sara.collection"),
    *("sara.simulation.study", "sara.simulation.report", "sara.planning.predict", "sara.planning.report"),
)


@pytest.mark.parametrize("module", MODEL_FREE)
def test_deciding_loads_no_model_and_no_workflow_library(module):
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_allocation_and_selection_name_no_heavy_library():
    assert offenders("sara/allocation", set(HEAVY)) == {}
    assert offenders("sara/selection", set(HEAVY) | {"scipy"}) == {}


def test_sara_knows_neither_prefect_nor_mlflow_nor_its_callers():
    assert (ROOT / "sara" / "collection" / "step.py").exists()
    assert offenders("sara", {"prefect", "mlflow", "tasks", "flows"}) == {}


def test_tasks_do_not_import_flows():
    assert offenders("tasks", {"flows"}) == {}


def test_imports_inside_functions_and_of_submodules_are_seen(tmp_path):
    source = tmp_path / "module.py"
    source.write_text("import numpy as np\n\n\ndef late():\n    from prefect.tasks import task\n    from . import x\n")
    assert imported_packages(source) == {"numpy", "prefect"}
