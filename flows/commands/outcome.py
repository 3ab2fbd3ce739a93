"""What commands share: the folder that they write to, the width they print in, bars and warnings."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def open_folder(out: Path) -> None:
    """Make the folder. Raises ValueError, in one line, where that cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror or error}; expected a folder that can be written to") from None


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None if it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told (done, of how many); silent unless stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Each warning once, as one line on stderr without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"sara: {message}", file=sys.stderr)
        yield
