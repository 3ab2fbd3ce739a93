import re

import pytest

from sara.reporting import Row, formats, render_markdown, render_text, summary_table, table_cells
from sara.reporting.estimates import Estimate
from tests.sara.reporting import synthetic, worked


def test_the_terminal_table_fits_a_hundred_columns_and_names_every_strategy():
    text = render_text(summary_table(synthetic.comparison()))
    assert max(map(len, text.splitlines())) <= 100
    for name in ("base model", "Uniform", "DS", "DPS", "SARA", "SARA + DPS"):
        assert re.search(rf"^{re.escape(name)}\s", text, re.MULTILINE)


def test_a_long_strategy_name_is_folded_not_lost():
    name = "an-experimental-strategy-with-a-long-name"
    row = Row(name, name, seeds=1, rollouts=1234.0)
    text = render_text([row])
    assert max(map(len, text.splitlines())) <= 100
    assert name in "".join(line.split(" ")[0] for line in text.splitlines())


def test_what_all_runs_share_is_a_line_below_the_terminal_s_table():
    text = render_text(summary_table(synthetic.comparison(seeds=(3,))))
    assert text.splitlines()[-1] == "Each strategy: 1 seed, 20 steps."
    assert "seeds" not in text and "DS  tokens" in text  # two spaces between columns
    differ = render_text(summary_table(worked.comparison(worked.DS[0], *worked.SARA)))
    assert "seeds" in differ.splitlines()[1] and differ.splitlines()[-1] == "Each strategy: 2 steps."


def test_intervals_stand_under_their_figures_in_a_terminal():
    run = worked.with_gain(worked.SARA[0], -0.02, 0.03)
    row, intervals, _ = render_text(summary_table(worked.comparison(run))).splitlines()[-3:]
    assert row.startswith("SARA") and "41.0" in row and "−2.0" in row
    assert intervals.split() == ["38.0–44.0", "−5.0", "to", "+1.0"]
    assert intervals.index("+1.0") == row.index("−2.0")  # both end in the same column


def test_escape_codes_are_for_terminals_only():
    rows = summary_table(synthetic.comparison())
    assert "\x1b[" not in render_text(rows)
    assert "\x1b[1m" in render_text(rows, is_terminal=True)


def test_a_name_with_markup_is_shown_as_it_is():
    row = Row("x", "[red]x", seeds=1)
    assert "[red]x" in render_text([row], is_terminal=True)


def test_the_markdown_table_shows_the_worked_example():
    lines = render_markdown(summary_table(worked.comparison(*worked.DS, *worked.SARA))).splitlines()
    cells = [cell.strip() for cell in lines[-1].strip("|").split("|")]
    assert cells == [
        *("SARA", "2", "2", "82", "75%", "660", "60%"),
        *("43.0 (33.9–52.1)", "–", "+13.0", "91.7%", "3.0", "1m 10s"),
    ]
    assert {line.count("|") for line in lines} == {len(cells) + 1}


def test_a_hostile_name_stays_in_its_markdown_cell():
    (line,) = render_markdown([Row("x", "a|b\nc", seeds=1)]).splitlines()[2:]
    assert line.startswith("| a\\|b c |")


def test_cells_have_one_title_each():
    rows = summary_table(worked.comparison(*worked.DS))
    cells = table_cells(rows)
    assert len(cells) == len(rows)
    assert cells[1]["rollouts"] == "110"
    assert cells[1]["rollouts, % of DS"] == "100%"
    assert cells[0]["rollouts"] == ""


@pytest.mark.parametrize(
    ("write", "number", "written"),
    [
        (formats.count, 0, "0"),
        (formats.count, 999.4, "999"),
        (formats.count, 999.6, "1.00k"),
        (formats.count, 12_340, "12.3k"),
        (formats.count, 999_960, "1.00M"),
        (formats.count, 4_560_000_000, "4.56G"),
        (formats.count, None, "–"),
        (formats.tick, 2500, "2.5k"),
        (formats.tick, 100, "100"),
        (formats.share, 1.0, "100%"),
        (formats.share, 0.9999, "99.9%"),
        (formats.points, Estimate(-0.0004), "0.0"),
        (formats.points, Estimate(-0.0123), "−1.2"),
        (formats.points, None, "–"),
        (formats.points_interval, Estimate(0.01, -0.0123, 0.0323), "−1.2 to +3.2"),
        (formats.points_interval, Estimate(0.01), ""),
        (formats.duration, 59.6, "1m 00s"),
        (formats.duration, 3599.7, "1h 00m"),
        (formats.duration, 90_000, "1d 01h"),
        (formats.steps, 20.0, "20"),
        (formats.steps, 17.5, "17.5"),
    ],
)
def test_numbers_are_written_for_readers(write, number, written):
    assert write(number) == written
