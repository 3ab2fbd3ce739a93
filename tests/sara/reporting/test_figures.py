import io

import numpy as np
import pytest
from PIL import Image

from sara.reporting import Comparison, TrainingRun, figures
from sara.reporting.comparison import ORDER
from sara.reporting.curves import accuracy_curves
from sara.reporting.plates import PLATES, png
from sara.reporting.style import DARK, LIGHT
from tests.sara.reporting import synthetic, worked


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return synthetic.comparison()


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("plate", PLATES, ids=lambda plate: plate.slug)
def test_every_figure_has_ink_of_every_strategy_on_its_paper(comparison, plate, scheme):
    image = Image.open(io.BytesIO(png(plate, comparison, scheme))).convert("RGB")
    assert image.width == 1920
    pixels = np.asarray(image).reshape(-1, 3).astype(int)
    assert _share_near(pixels, scheme.paper) > 0.3
    for strategy in comparison.strategies():
        assert _share_near(pixels, scheme.strategies[strategy]) > 1e-4


def _share_near(pixels: np.ndarray, colour: str) -> float:
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return float((np.abs(pixels - wanted).max(axis=1) < 12).mean())


def test_the_fates_stack_up_to_everything_generated(comparison):
    figure = figures.fates(comparison, LIGHT)
    for axes, strategy in zip(figure.axes, comparison.strategies(), strict=True):
        tops = np.max([patch.get_data().values for patch in axes.patches], axis=0)
        generated = [run.series("rollouts/generated").values for run in comparison.of(strategy)]
        np.testing.assert_allclose(tops, np.mean(generated, axis=0))


def test_only_fates_that_occurred_are_in_the_legend(comparison):
    assert figures.fates_seen(comparison) == ["effective", "abandoned", "saturated", "surplus", "missing"]


def test_a_curve_starts_at_the_base_model_and_ends_at_the_mean_over_seeds():
    (curve,) = accuracy_curves(worked.comparison(*worked.SARA), "cumulative/rollouts")
    # Seeds spend 77 and 88 rollouts, mean 82.5, for 41% and 45%.
    assert curve.spent == (0.0, 82.5)
    assert [score.value for score in curve.scores] == pytest.approx([0.30, 0.43])


def test_names_at_the_lines_do_not_cover_each_other(comparison):
    figure = figures.accuracy(comparison, LIGHT)
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text() != "base model"]
        assert len(boxes) == len(comparison.strategies())
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[i + 1 :])
            assert box.x1 <= figure.bbox.x1


def test_there_is_no_figure_of_nothing():
    empty = Comparison("empty", (TrainingRun("sara", 0, {}), TrainingRun("ds", 0, {})))
    assert [png(plate, empty, LIGHT) for plate in PLATES] == [b""] * len(PLATES)


def test_strategies_keep_their_colour_whoever_else_is_compared():
    for scheme in (LIGHT, DARK):
        assert len({scheme.strategies[name] for name in ORDER}) == len(ORDER)
        assert scheme.strategy("sara", ("sara",)) == scheme.strategy("sara", ("ds", "sara", "zeta"))
        assert scheme.strategy("eta", ("eta", "zeta")) != scheme.strategy("zeta", ("eta", "zeta"))


def test_a_name_with_dollar_signs_is_drawn_as_it_is():
    counts = {f"trained__{level}": (1.0, 1.0) for level in ("hard", "medium", "easy")}
    runs = [worked.with_metrics(worked.run(name, 0, (8, 8), (9, 9), 0.4), **counts) for name in ("$x_$", "sara")]
    assert all(png(plate, worked.comparison(*runs), LIGHT) for plate in PLATES)
