"""The report: one page that needs nothing but itself, and its figures as PNG files beside it."""

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from sara.reporting.comparison import Comparison, label
from sara.reporting.findings import findings, notes
from sara.reporting.plates import PLATES, Plate, png
from sara.reporting.style import DARK, LIGHT
from sara.reporting.summary import summary_table
from sara.reporting.tables import COLUMNS, column_groups

PAGE = "index.html"
_OURS = {PAGE} | {f"{plate.slug}.png" for plate in PLATES}


def write_report(comparison: Comparison, out_dir: Path | str) -> Path:
    """Writes `out_dir` anew and returns its index.html; a reader never sees half a report.

    Raises ValueError when `out_dir` holds anything but an older report.
    """
    out_dir = Path(out_dir).resolve()
    _check_replaceable(out_dir)
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        scratch_dir = tempfile.TemporaryDirectory(prefix=f".{out_dir.name}-", dir=out_dir.parent)
    except OSError as error:
        raise ValueError(f"{out_dir}: cannot be written ({error.strerror}); choose another folder") from None
    with scratch_dir as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        plates = [_draw(plate, comparison, fresh) for plate in PLATES]
        page = render_page(comparison, [plate for plate in plates if plate])
        (fresh / PAGE).write_text(page, encoding="utf-8")
        if out_dir.exists():
            out_dir.replace(Path(scratch) / "old")
        fresh.replace(out_dir)
    return out_dir / PAGE


def render_page(comparison: Comparison, plates: list[dict[str, str]]) -> str:
    """The page's HTML; every text from the comparison is escaped."""
    environment = Environment(
        loader=PackageLoader("sara.reporting", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    said, shown = findings(comparison), comparison.strategies()
    return environment.get_template("report.html.j2").render(
        comparison=comparison,
        columns=COLUMNS,
        column_groups=column_groups(),
        colours=[(s, LIGHT.strategy(s, shown), DARK.strategy(s, shown)) for s in shown],
        rows=summary_table(comparison),
        headline=said[0],
        findings=said[1:],
        notes=notes(comparison),
        plates=plates,
        runs=[(label(s), [run.seed for run in comparison.of(s)]) for s in shown],
        settings=grouped_settings(comparison.params),
    )


def grouped_settings(params: Mapping[str, str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Dotted keys by their first part: [("optimizer", [("lr", "1e-06")])]; undotted ones under ''."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for key in sorted(params):
        head, dot, rest = key.partition(".")
        groups.setdefault(head if dot else "", []).append((rest if dot else key, params[key]))
    return sorted(groups.items())


def _draw(plate: Plate, comparison: Comparison, folder: Path) -> dict[str, str] | None:
    light = png(plate, comparison, LIGHT)
    if not light:
        return None
    (folder / f"{plate.slug}.png").write_bytes(light)
    dark = png(plate, comparison, DARK)
    return {
        "slug": plate.slug,
        "title": plate.title,
        "reading": plate.reading(comparison),
        "light": _embedded(light),
        "dark": _embedded(dark),
    }


def _embedded(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _check_replaceable(out_dir: Path) -> None:
    if not out_dir.exists():
        return
    if not out_dir.is_dir():
        raise ValueError(f"{out_dir} is a file; a report needs a new folder, or one with an older report")
    strange = sorted(path.name for path in out_dir.iterdir() if path.name not in _OURS)
    if strange:
        raise ValueError(
            f"{out_dir} holds {strange[0]!r}, which no report wrote; give a new folder, or one with an older report"
        )
