"""The docs do what they say: their Python runs and prints what stands below it, their links and tests exist."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from sara.simulation.mixtures import RateMixture

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALLOCATION, SIMULATE = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("allocation.md", "simulate.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def tables(text: str) -> list[list[list[str]]]:
    """Every table as rows of cells, without its heading."""
    found = re.findall(r"^\|.*\|\n\|[-:| ]+\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()] for rows in found]


@each_page
def test_python_in_the_docs_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    """The blocks of a page run one after another, as a reader would try them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, shown in BLOCK.findall(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == shown


def test_there_is_python_in_the_docs():
    assert sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 3
    code, shown = BLOCK.findall(ALLOCATION)[1]
    assert "StepCollection" in code and "step 3" in shown


@each_page
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\((?!\w+://)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        to = (page.parent / target) if target else page
        assert to.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", to.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


@each_page
def test_tests_named_in_the_docs_exist(page):
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")):
        assert f"def {name}(" in sources, name


def test_savings_are_those_of_the_simulation():
    shown = {(f"{row[0]} {row[2]}".strip(), row[1]): row for row in tables(SIMULATE)[1]}
    columns = ("sara 0.5", "sara auto", "sara+dps 0.5", "sara+dps auto")
    rows = next(table for table in tables(ALLOCATION) if len(table[0]) == 5 and "/" in table[0][1])
    assert [row[0] for row in rows] == ["8", "16", "32", "64"]
    for k, *cells in rows:
        for name, cell in zip(columns, cells, strict=True):
            row = shown[name, k]
            assert cell == f"{row[4].split()[0]} / {row[7].split()[0]}"


def test_the_figures_of_the_laws_follow_from_the_pools():
    pools = [
        [{"alpha": 0.1, "beta": 0.3}],
        [{"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2}],
        [{"weight": 0.5, "rate": 1}, {"weight": 0.5, "alpha": 2, "beta": 1}],
        [{"alpha": 1, "beta": 1}],
        [{"rate": 0.2}],
    ]
    rows = next(table for table in tables(ALLOCATION) if len(table[0]) == 8)
    for pool, (_, *cells) in zip(pools, rows, strict=True):
        mixture = RateMixture.of(pool)
        c4, c8 = (float(1 - mixture.moment(n, 0) - mixture.moment(0, n)) for n in (4, 8))
        ds, sara, wrong = 8 / c8, 4 / c4 + 4, (c8 - c4) / (1 - c4)
        assert cells == [
            *(f"{c4:.3f}", f"{c8:.3f}", f"{ds:.1f}", f"{sara:.1f}", f"{ds / sara:.3f}"),
            *(f"{wrong:.1%}", f"{c8 / 2:.1%}"),
        ]
