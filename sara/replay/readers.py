"""Readers: JSONL (plain or gzip) and Parquet as a stream of bounded chunks.

A file's kind is told by its first bytes. Owns bytes, lines and row batches, and knows which columns to ask for.
Never says what a value means, and never holds more of a file than one chunk.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sara.replay.columns import Columns, recognise

CHUNK_ROWS = 2048
SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".parquet")
OnBytes = Callable[[int], None]  # called with bytes read since the last call
_HEAD_ROWS = 100  # JSONL rows from which the columns are told


class Chunk(NamedTuple):
    """Rows of one file. `values` maps each used column to a list or an Arrow array; rows[i] numbers them from 1."""

    values: Mapping[str, Any]
    rows: Sequence[int]


@dataclass
class BrokenLines:
    """Lines that are no JSON objects, such as the last one of a killed run."""

    count: int = 0
    first: str | None = None

    def add(self, where: str) -> None:
        self.count += 1
        self.first = self.first or where


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, folders as the logs in them in natural order (2 before 10); none twice.

    Raises ValueError on a path that does not exist and on a folder without logs.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file()]
            if not inside:
                raise ValueError(f"{path}: no log in this folder; expected files named *{', *'.join(SUFFIXES)}")
            found += sorted(inside, key=_natural)
        elif path.is_file():
            found.append(path)
        else:
            raise ValueError(f"{path}: no such file or folder")
    return list({path.resolve(): path for path in found}.values())


def read_chunks(
    path: Path, mapping: Mapping[str, str], chunk_rows: int, broken: BrokenLines, on_bytes: OnBytes
) -> Iterator[tuple[Columns, Chunk]]:
    """The rows of one file, with its columns; nothing for an empty file. Raises ValueError if it cannot be read."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic == b"PAR1":
                yield from _read_parquet(path, mapping, chunk_rows, on_bytes)
            elif magic:
                yield from _read_jsonl(file, magic, path, mapping, chunk_rows, broken, on_bytes)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error


def _read_parquet(
    path: Path, mapping: Mapping[str, str], chunk_rows: int, on_bytes: OnBytes
) -> Iterator[tuple[Columns, Chunk]]:
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as parquet:
        schema, row, total = parquet.schema_arrow, 0, parquet.metadata.num_rows
        if not total:
            return
        numeric = {field.name for field in schema if _is_numeric(field.type)}
        columns = recognise(schema.names, numeric, mapping, str(path))
        bytes_a_row = path.stat().st_size / total
        for batch in parquet.iter_batches(batch_size=chunk_rows, columns=columns.used()):
            values = {name: _plain(batch.column(name)) for name in columns.used()}
            yield columns, Chunk(values, range(row + 1, row + batch.num_rows + 1))
            on_bytes(int(bytes_a_row * (row + batch.num_rows)) - int(bytes_a_row * row))
            row += batch.num_rows


def _read_jsonl(
    file: IO[bytes],
    magic: bytes,
    path: Path,
    mapping: Mapping[str, str],
    chunk_rows: int,
    broken: BrokenLines,
    on_bytes: OnBytes,
) -> Iterator[tuple[Columns, Chunk]]:
    stream = gzip.GzipFile(fileobj=file) if magic[:2] == b"\x1f\x8b" else file
    objects = _objects(stream, path, broken)
    columns, place = None, 0
    while rows := list(islice(objects, chunk_rows if columns else max(chunk_rows, _HEAD_ROWS))):
        if columns is None:
            head = [row for _, row in rows[:_HEAD_ROWS]]
            columns = recognise(
                list(dict.fromkeys(name for row in head for name in row)), _numeric(head), mapping, str(path)
            )
        values = {name: [row.get(name) for _, row in rows] for name in columns.used()}
        yield columns, Chunk(values, [number for number, _ in rows])
        on_bytes(file.tell() - place)
        place = file.tell()


def _objects(stream: IO[bytes], path: Path, broken: BrokenLines) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL stream with their line numbers; what is no object is counted."""
    number, is_any = 0, False
    try:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            row = _parsed(line)
            if isinstance(row, list) and not is_any:
                raise ValueError(f"{path}: a JSON array; expected one JSON object a line (JSONL)")
            if isinstance(row, dict):
                is_any = True
                yield number, row
            else:
                broken.add(f"{path}, line {number}")
                if not is_any and broken.count >= _HEAD_ROWS:
                    break
    except (EOFError, zlib.error):  # a gzip stream that was cut short
        broken.add(f"{path}, line {number + 1}")
    if broken.count and not is_any:
        raise ValueError(f"{broken.first}: no JSON object; expected JSONL (plain or gzip) or Parquet")


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # a ValueError is broken JSON or broken UTF-8
        return None


def _numeric(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names of the columns that hold nothing but numbers, booleans and nulls, and not only nulls."""
    seen: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                seen.setdefault(name, set()).add(type(value))
    return {name for name, types in seen.items() if types <= {bool, int, float}}


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _natural(path: Path) -> list[tuple[int, str]]:
    """A sort key that takes runs of digits as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]
