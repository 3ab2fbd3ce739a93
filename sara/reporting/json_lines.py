"""Append-only files of JSON objects, one a line, that survive a kill at any byte."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class JsonLines:
    """Appends objects to `path`; each line has reached the operating system when `append` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("a+b", buffering=0)
        size = self._file.seek(0, os.SEEK_END)
        if size:
            self._file.seek(size - 1)
            if self._file.read(1) != b"\n":  # killed in mid-line: what follows must not be glued to the half line
                self._write(b"\n")

    def append(self, entry: Mapping[str, Any]) -> None:
        """Raises OSError if the line does not fit (disk full); the file is then as it was before."""
        self._write(json.dumps(entry, allow_nan=False).encode() + b"\n")

    def to_disk(self) -> None:
        """Returns once every line would survive a power cut."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _write(self, line: bytes) -> None:
        end, written = self._file.seek(0, os.SEEK_END), 0
        try:
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise OSError(error.errno, error.strerror, str(self._path)) from None


class Line(NamedTuple):
    """A line of a file: the object in it (None if a kill tore it), and the byte at which the next one begins."""

    entry: dict[str, Any] | None
    end: int


def read_lines(path: Path, offset: int = 0) -> Iterator[Line]:
    """The complete lines from byte `offset` on; nothing if there is no such file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield Line(_parsed(line), offset)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return entry if isinstance(entry, dict) else None
