"""Rows of a data file or of the hub, under the field names of a data set.

Owns the reading of JSONL and Parquet and the matching of columns to fields. Knows nothing of what a
row means.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sara.datasets.base import Field, HubSource, Row, Split

SUFFIXES = (".jsonl", ".json", ".parquet")


def read_file(path: Path, fields: Mapping[str, Field], columns: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """(place, row) of each row, in order; `columns` names the column of a field that is called otherwise.

    Raises ValueError, naming the file and line, for a file that is missing, empty or no such file, for a faulty
    row, and for a column that is not there.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such data file")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{path}: cannot be read; expected JSONL, one object a line, or Parquet ({', '.join(SUFFIXES)})"
        )
    is_empty = True
    rows = _parquet_rows(path) if path.suffix.lower() == ".parquet" else _json_rows(path)
    for place, row in rows:
        is_empty = False
        yield place, _matched(row, place, fields, columns)
    if is_empty:
        raise ValueError(f"{path}: the data file is empty; expected one JSON object a line, or Parquet with rows")


def read_hub(source: HubSource, split: Split, revision: str | None, fields: Mapping[str, Field], setting: str):
    """(place, row) of each row of a public set; `setting` is the key of a file that may be read instead.

    Raises ValueError if the set is neither in the local cache nor to be had from the hub.
    """
    rows = load_from_hub(source.name, revision or source.revision, source.splits[split], setting)
    for number, row in enumerate(rows):
        place = f"{source.name}[{number}]"
        yield place, _matched(row, place, fields, {})


def load_from_hub(name: str, revision: str, split: str, setting: str) -> Iterable[dict[str, Any]]:
    """Rows of one split of a repository at one revision, out of the local cache where they are in it."""
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError
    from datasets.utils.logging import disable_progress_bar
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.logging import set_verbosity_error
    from requests.exceptions import RequestException

    disable_progress_bar()
    set_verbosity_error()  # every try of several would be a line
    try:
        return load_dataset(name, revision=revision, split=split)
    except (OSError, ValueError, DatasetsError, HfHubHTTPError, RequestException, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{name} at revision {revision[:12]} cannot be read from the Hugging Face hub ({_shortened(reason)}); "
            f"set {setting} to a JSONL or Parquet file of it"
        ) from error


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(f"{place}: expected a JSON object on a line of its own") from None
            yield place, row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path)
        for batch_number, batch in enumerate(table.iter_batches(batch_size=_BATCH)):
            for number, row in enumerate(batch.to_pylist()):
                yield f"{path}[{batch_number * _BATCH + number}]", row
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: no Parquet file that can be read ({_shortened(str(error))})") from None


_BATCH = 4096


def _matched(row: Any, place: str, fields: Mapping[str, Field], columns: Mapping[str, str]) -> Row:
    if not isinstance(row, Mapping):
        raise ValueError(f"{place}: expected a JSON object, got {_shortened(json.dumps(row))}")
    wanted = {name: (columns[name],) if name in columns else field.columns for name, field in fields.items()}
    found = {name: next((column for column in those if column in row), None) for name, those in wanted.items()}
    for name, field in fields.items():
        has_other = field.instead is not None and found[field.instead] is not None
        if found[name] is None and (name in columns or (field.is_required and not has_other)):
            those = (*wanted[name], *(wanted[field.instead] if field.instead else ()))
            there = ", ".join(map(str, row)) or "none"
            setting = f"data.train_columns.{name}={_nearest(name, row)} (or data.heldout_columns)"
            hint = "" if name in columns else f"; map it with a setting such as {setting}"
            raise ValueError(f"{place}: no column {' or '.join(those)}; the columns there are: {there}{hint}")
    return {name: row[column] for name, column in found.items() if column is not None}


def _nearest(name: str, row: Row) -> str:
    matches = difflib.get_close_matches(name, map(str, row), n=1, cutoff=0.0)
    return matches[0] if matches else "its name"


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
