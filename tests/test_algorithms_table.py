"""The table of `benchmarks/algorithms.py`, which docs/learner.md shows: at equal steps and at equal rollouts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.algorithms import at_rollouts, finished, table
from sara.reporting.comparison import with_algorithm
from sara.reporting.curves import Curve
from sara.reporting.estimates import Estimate
from tests.sara.reporting import worked

UNIFORM, SARA = with_algorithm("uniform", "rloo"), with_algorithm("sara", "rloo")


def test_accuracy_at_equal_rollouts_lies_on_the_line_between_two_evaluations():
    # Half way from 100 to 300 rollouts: 10% to 30% is 20%, and so for both ends.
    curve = Curve("sara", (0, 100, 300), (Estimate(0), Estimate(0.1, 0.0, 0.2), Estimate(0.3, 0.1, 0.5)))
    found = at_rollouts(curve, 200)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.05, 0.35))
    assert at_rollouts(curve, 300).value == pytest.approx(0.3) and at_rollouts(curve, 301) is None


def test_a_row_sets_sara_beside_uniform():
    uniform = worked.run(UNIFORM, 0, (50, 50), (9, 9), 0.40, half_width=0.02)
    sara = worked.with_gain(worked.run(SARA, 0, (100, 100), (9, 9), 0.50), 0.2, 0.05)
    # SARA's line runs from the base model's 30% at 0 rollouts to 50% at 200: 40% at uniform's 100.
    (row,) = table(worked.comparison(uniform, sara)).splitlines()[4:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:4] == ["RLOO", "100", "200", "40.0% (38.0 to 42.0)"]
    assert cells[4].startswith("40.0% (") and cells[5] == "50.0% (47.0 to 53.0)"
    assert cells[7] == "+20.0 (+15.0 to +25.0)"


def test_only_seeds_that_every_pair_has_finished_count():
    runs = [worked.run(name, seed, (5, 5), (9, 9), 0.4) for seed in (0, 1) for name in (UNIFORM, SARA)]
    unfinished = replace(runs[3], status="RUNNING")
    assert finished(worked.comparison(*runs[:3], unfinished)).seeds() == (0,)
    assert finished(worked.comparison(*runs)).seeds() == (0, 1)
