import pytest

from sara.reporting.comparison import TrainingRun
from sara.reporting.curriculum import curricula, draw_curricula, read_curricula
from sara.reporting.style import LIGHT
from tests.sara.reporting import synthetic, worked

SPLIT = {"trained__hard": (3.0, 1.0), "trained__medium": (1.0, 1.0), "trained__easy": (0.0, 2.0)}
SATURATED = {"trained__all_fail": (2.0, 0.0), "trained__all_pass": (0.0, 1.0)}
PALE = "which these runs did not count apart"


def uniform(**metrics) -> TrainingRun:
    run = worked.run("uniform", 0, (8, 8), (9, 9), 0.4, groups=(4.0, 4.0), share=(0.5, 0.75))
    return worked.with_metrics(run, **metrics)


def test_saturated_groups_are_no_part_of_a_curriculum():
    (bar,) = curricula(worked.comparison(uniform(**SPLIT, **SATURATED, gradient_signal=(0.3, 0.5))))
    # Hard (3 + 1 - 2) / 2 = 1, medium (1 + 1) / 2 = 1, easy (0 + 2 - 1) / 2 = 0.5 groups a step; 2.5 in all.
    assert bar.groups == (1.0, 1.0, 0.5)
    assert bar.shares == pytest.approx((0.4, 0.4, 0.2))
    assert (bar.is_effective, bar.signal) == (True, pytest.approx(0.4))


def test_seeds_are_averaged():
    other = worked.with_metrics(worked.SARA[1], **SPLIT)
    first = worked.with_metrics(
        worked.SARA[0], trained__hard=(0.0, 0.0), trained__medium=(4.0, 4.0), trained__easy=(0.0, 0.0)
    )
    (bar,) = curricula(worked.comparison(first, other))
    assert bar.groups == (1.0, 2.5, 0.5)  # hard (0 + 2) / 2, medium (4 + 1) / 2, easy (0 + 1) / 2


def test_groups_that_were_not_counted_apart_are_drawn_pale_and_said():
    comparison = worked.comparison(uniform(**SPLIT), worked.with_metrics(worked.DS[0], **SPLIT))
    unknown, ds = curricula(comparison)
    assert (unknown.groups, unknown.is_effective) == ((2.0, 1.0, 1.0), False)
    assert (ds.groups, ds.is_effective) == ((2.0, 1.0, 1.0), True)  # every group that DS trained was effective
    assert PALE in read_curricula(comparison)
    assert PALE not in read_curricula(worked.comparison(uniform(**SPLIT, **SATURATED)))
    alphas = [patch.get_alpha() for patch in draw_curricula(comparison, LIGHT).axes[0].patches]
    assert alphas == [0.45] * 3 + [1.0] * 3


def test_the_bars_are_the_shares_and_the_dotted_lines_are_those_of_ds():
    comparison = synthetic.comparison()
    (axes,) = draw_curricula(comparison, LIGHT).axes
    bars = curricula(comparison)
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == pytest.approx([share for bar in bars for share in bar.shares])
    # DS trains on 16 groups, 7 of them hard and 6 medium.
    assert [line.get_xdata()[0] for line in axes.lines] == pytest.approx([7 / 16, 13 / 16])
    assert "dotted lines are DS's" in read_curricula(comparison)


def test_without_ds_there_are_no_lines_to_compare_with():
    comparison = synthetic.comparison(("uniform", "sara"))
    assert not draw_curricula(comparison, LIGHT).axes[0].lines
    assert "DS" not in read_curricula(comparison)


def test_a_strategy_that_trained_on_nothing_has_no_bar():
    nothing = dict.fromkeys(SPLIT, (0.0, 0.0))
    comparison = worked.comparison(uniform(**nothing), worked.with_metrics(worked.DS[0], **SPLIT))
    assert [bar.strategy for bar in curricula(comparison)] == ["ds"]


def test_everything_written_stays_on_the_figure():
    long_name = worked.with_metrics(worked.run("an-experimental-strategy", 0, (8, 8), (9, 9), 0.4), **SPLIT)
    figure = draw_curricula(worked.comparison(long_name), LIGHT)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 8  # a name, three shares, two figures and their headings
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
