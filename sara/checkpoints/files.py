"""Files that are written completely, and proved to be unchanged.

Owns syncing, hashing and the manifest of a folder. Knows nothing of what the files hold.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
_SEAL = "manifest.sha256"  # as `sha256sum -c` reads it
_FORMAT = 1


class Damaged(ValueError):
    """A folder is not as it was written; the message is one line that names the file."""


def seal(folder: Path, about: dict[str, Any]) -> None:
    """Write the manifest, with the size and SHA-256 of every file in the folder, and sync all of it to the disk.

    about   what else the manifest is to say, as JSON
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = {str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}
    text = json.dumps({"format": _FORMAT, **about, "files": entries}, indent=1)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    (folder / _SEAL).write_text(_seal_of(folder), encoding="utf-8")
    for path in [*folder.rglob("*"), folder]:
        sync(path)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest. Raises Damaged if it, or its seal, is missing or changed."""
    try:
        is_sealed = (folder / _SEAL).read_bytes() == _seal_of(folder).encode()
    except FileNotFoundError as error:
        raise Damaged(f"{error.filename}: missing") from None
    if not is_sealed:
        raise Damaged(f"{folder / MANIFEST}: is not what {_SEAL} says")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["format"] != _FORMAT:
        raise Damaged(f"{folder / MANIFEST}: format {manifest['format']}; this version reads {_FORMAT}")
    return manifest


def verify(folder: Path) -> dict[str, Any]:
    """The manifest, once every file is proved to be as it was written. Raises Damaged."""
    try:
        return _verified(folder)
    except OSError as error:
        raise Damaged(f"{error.filename or folder}: cannot be read ({error.strerror})") from error


def _verified(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise Damaged(f"{path}: missing")
        if path.stat().st_size != entry["bytes"]:
            raise Damaged(f"{path}: has {path.stat().st_size} bytes; {entry['bytes']} were written")
        if sha256(path) != entry["sha256"]:
            raise Damaged(f"{path}: its content was changed (SHA-256 differs)")
    return manifest


def sha256(path: Path) -> str:
    """Of the file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Returns once the file, or the entries of the folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _seal_of(folder: Path) -> str:
    return f"{sha256(folder / MANIFEST)}  {MANIFEST}\n"
