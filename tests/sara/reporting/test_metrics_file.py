import math

from hypothesis import given
from hypothesis import strategies as st

from sara.reporting.comparison import Series
from sara.reporting.metrics_file import MetricsFile, read_metrics, read_records


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.floats(), min_size=1, max_size=5))
def test_every_float_comes_back_as_it_was_written(tmp_path_factory, metrics):
    path = tmp_path_factory.mktemp("metrics") / "metrics.jsonl"
    file = MetricsFile(path)
    file.append(3, 1000, metrics)
    file.close()
    ((step, time_ms, got),) = read_records(path)
    assert (step, time_ms) == (3, 1000)
    assert got.keys() == metrics.keys()
    for name, value in metrics.items():
        assert got[name] == value or (math.isnan(value) and math.isnan(got[name]))


def test_a_line_torn_by_a_kill_costs_only_itself(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "time_ms": 5, "metrics": {"loss": 0.5}}\n{"step": 2, "time')
    file = MetricsFile(path)
    file.append(2, 9, {"loss": 0.25})
    file.close()
    assert read_metrics(path) == {"loss": Series((1, 2), (0.5, 0.25))}


def test_a_step_written_again_keeps_its_last_value(tmp_path):
    file = MetricsFile(tmp_path / "new" / "metrics.jsonl")
    for step, value in [(1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0)]:
        file.append(step, step, {"reward/mean": value})
    file.close()
    got = read_metrics(tmp_path / "new" / "metrics.jsonl")["reward/mean"]
    assert got == Series((1, 2, 3), (1.0, 20.0, 3.0))


def test_a_series_without_its_nan_keeps_the_other_steps():
    series = Series((1, 2, 3, 4), (1.0, math.nan, 3.0, math.inf))
    assert series.finite() == Series((1, 3), (1.0, 3.0))
    assert series.last() == 3.0
    assert series.at(4) == math.inf
    assert series.at(9) is None


def test_an_empty_series_has_no_last_value():
    assert Series().last() is None
    assert Series((1,), (math.nan,)).last() is None


def test_points_come_out_in_rising_steps():
    assert Series.from_points([(5, 50.0), (1, 10.0)]) == Series((1, 5), (10.0, 50.0))
