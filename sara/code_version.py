"""Which code made a result: a digest of the sources that decide a run's numbers, and the git commit.

The digest does not need git, and neither comments, docstrings nor the formatting change it.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_LOOKING_ON = {"reporting", "replay", "planning", "simulation", "sizing", "sweeps.py", "experiments.py"}
"""Parts of `sara` that read results or stand beside training; they decide nothing in it."""


@lru_cache(maxsize=1)
def code_version() -> str:
    """Digest of what `sara` does when it prepares, trains and evaluates, as 12 hexadecimal digits."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in _LOOKING_ON:
            digest.update(f"{name.as_posix()}\n{_meaning(path.read_text(encoding='utf-8'))}\n".encode())
    for path in sorted((package / "builtin" / "weights").glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=1)
def git_commit() -> str:
    """The commit of the sources, ending in '-dirty' where tracked files differ from it; '' outside a repository."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _meaning(source: str) -> str:
    """The syntax tree without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        has_docstring = isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None
        if has_docstring:
            node.body = node.body[1:]
    return ast.dump(tree)
