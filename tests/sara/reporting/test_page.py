import base64
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from sara.reporting import Comparison, TrainingRun, write_report
from sara.reporting.page import grouped_settings, render_page
from tests.sara.reporting import synthetic, worked

BEGUN = Comparison("begun", (TrainingRun("sara", 0, {}, status="RUNNING"),))


class _Page(HTMLParser):
    """Collects the tags, what they refer to, and the text a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> _Page:
    path = write_report(synthetic.comparison(), tmp_path_factory.mktemp("report") / "out")
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "accuracy.png",
        "curriculum.png",
        "effective-share.png",
        "fates.png",
        "index.html",
    ]
    return _Page(path.read_text(encoding="utf-8"))


def test_the_page_needs_nothing_but_itself(report):
    assert len(report.references) == 8  # four figures, light and dark
    assert all(reference.startswith("data:image/png;base64,") for reference in report.references)
    assert not {"script", "link", "iframe"} & set(report.tags)
    assert "url(" not in report.text and "@import" not in report.text


def test_the_embedded_figures_are_pictures(report):
    for reference in report.references:
        image = Image.open(io.BytesIO(base64.b64decode(reference.partition(",")[2])))
        assert len(image.convert("RGB").getcolors(1 << 20)) > 10


def test_the_page_names_every_strategy_its_settings_and_seeds(report):
    for expected in ("Uniform", "DPS", "SARA + DPS", "tau_low", "0.5", "0, 1"):
        assert expected in report.text
    assert report.tags.index("table") < report.tags.index("figure")


def test_the_headline_is_computed_from_the_numbers():
    page = render_page(worked.comparison(*worked.DS, *worked.SARA), [])
    headline = re.search(r"<h1>(.*?)</h1>", page)[1]
    assert headline == ("SARA trained the same number of groups as DS with 25% fewer rollouts and 40% fewer tokens.")


def test_hostile_names_are_escaped():
    evil = "<script>alert(1)</script>"
    runs = (TrainingRun(evil, 0, worked.SARA[0].metrics, status=evil), *worked.DS)
    comparison = Comparison(f'"{evil}', runs, worked.BASE, {f"a.{evil}": evil, evil: evil}, evil, evil, evil)
    page = _Page(render_page(comparison, []))
    assert "script" not in page.tags
    assert page.text.count("alert(1)") >= 7


def test_a_report_of_a_run_that_has_only_started_is_written(tmp_path):
    page = _Page(write_report(BEGUN, tmp_path / "out").read_text(encoding="utf-8"))
    assert "running" in page.text
    assert "figure" not in page.tags


def test_an_older_report_is_replaced_whole(tmp_path):
    out = tmp_path / "out"
    write_report(worked.comparison(*worked.DS), out)
    write_report(Comparison("empty", ()), out)
    assert [p.name for p in out.iterdir()] == ["index.html"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("three years of work")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        write_report(worked.comparison(*worked.DS), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "three years of work"


def test_a_failure_leaves_the_older_report_in_place(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_report(BEGUN, out)
    before = (out / "index.html").read_bytes()
    monkeypatch.setattr("sara.reporting.page.render_page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(BEGUN, out)
    assert (out / "index.html").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_settings_are_grouped_by_the_first_part_of_their_key():
    assert grouped_settings({"optimizer.lr": "1", "name": "x", "optimizer.betas.0": "2"}) == [
        ("", [("name", "x")]),
        ("optimizer", [("betas.0", "2"), ("lr", "1")]),
    ]
