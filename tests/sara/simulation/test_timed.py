from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import Draws, Outcomes
from sara.simulation.config import SimulateConfig
from sara.simulation.run import Run, plan_runs, simulate
from sara.simulation.source import PopulationSource
from sara.simulation.summary import summarise
from sara.simulation.tables import notes, render_markdown
from sara.simulation.timed import TimedSource


class BySlot:
    """Every rollout is right; its length stands beside its slot."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = np.array(lengths)

    def draw(self, step, draws):
        return Outcomes(np.ones(draws.size, dtype=np.int8), self.lengths[draws.slots])


def of_slots(*slots: int) -> Draws:
    return Draws.of([(0, slot, 0) for slot in slots])


def test_a_round_fills_its_places_and_waits_for_the_last():
    """Two places. 0 to 5: slot 0; 0 to 2: slot 1; 2 to 9: slot 2; 5 to 6: slot 3. Then a round of 3 alone: 9 to 10."""
    timed = TimedSource(BySlot(5, 2, 7, 1), places=2)
    assert timed.draw(1, of_slots(0, 1, 2, 3)).tokens.tolist() == [5, 2, 7, 1]
    assert timed.clock == 9 and timed.num_free == 2
    timed.draw(1, of_slots(3))
    assert timed.clock == 10


def test_a_stream_goes_from_one_end_to_the_next():
    timed = TimedSource(BySlot(5, 2, 5, 1), places=4)
    timed.start(1, of_slots(0, 1))
    assert timed.num_free == 2 and timed.advance()[0].slots.tolist() == [1] and timed.clock == 2
    timed.start(1, of_slots(2))
    ended, outcomes = timed.advance()
    assert (ended.slots.tolist(), outcomes.tokens.tolist(), timed.clock) == ([0], [5], 5)
    assert timed.advance()[0].slots.tolist() == [2] and timed.clock == 7
    assert timed.advance()[0].size == 0 and timed.clock == 7


def test_what_ends_together_comes_back_together():
    timed = TimedSource(BySlot(4, 4, 9), places=4)
    timed.start(1, of_slots(0, 1, 2))
    assert timed.advance()[0].slots.tolist() == [0, 1]


def test_aborted_rollouts_have_as_many_tokens_as_steps_they_ran_and_free_their_places():
    timed = TimedSource(BySlot(3, 50, 60), places=3)
    timed.start(1, of_slots(0, 1))
    timed.advance()
    timed.start(1, of_slots(2))
    assert timed.abort(of_slots(2, 1, 0)).tolist() == [0, 3, 3]
    assert timed.num_free == 3 and timed.advance()[0].size == 0 and timed.clock == 3
    timed.start(1, of_slots(1))  # begun anew, it takes its whole time
    assert timed.advance()[0].slots.tolist() == [1] and timed.clock == 53


def test_there_must_be_a_place():
    with pytest.raises(ValueError, match="places = 0; expected at least 1"):
        TimedSource(BySlot(1), places=0)


@pytest.mark.parametrize("tail", [0.0, 0.5, 1.0])
def test_lengths_keep_their_mean_whatever_their_tail(tail):
    """Relative variance: 1/12 of a uniform factor, exp(tail^2) - 1 of a log-normal one."""
    source = PopulationSource(np.full(20_000, 1.0), 0, tokens_right=1000, tail=tail)
    tokens = source.draw(1, Draws(np.arange(20_000), np.zeros(20_000, dtype=int), np.zeros(20_000, dtype=int))).tokens
    variance = np.expm1(tail**2) if tail else 1 / 12
    assert tokens.mean() == pytest.approx(1000, abs=4 * 1000 * np.sqrt(variance / 20_000))
    if tail:
        assert np.log(tokens).std() == pytest.approx(tail, rel=0.03)
        assert np.median(tokens) == pytest.approx(1000 * np.exp(-(tail**2) / 2), rel=0.05)


def test_a_tail_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"tail from -1\.0 to -1\.0; expected 0 to inf"):
        PopulationSource(np.full(3, 0.5), 0, tail=-1)


@pytest.fixture(scope="module")
def config() -> SimulateConfig:
    return SimulateConfig(
        strategies=("uniform", "ds", "sara"),
        steps=4,
        num_seeds=1,
        places=32,
        population={"prompts": 2000},
        tokens={"right": 60, "wrong": 100, "tail": 1},
        allocation={"groups_per_step": 8},
        grid={"schedule": ("rounds", "stream")},
    )


def test_a_stream_takes_less_time_for_as_many_groups(config):
    traces = {(run.strategy, run.allocation.schedule): simulate(config, run, 0) for run in plan_runs(config)}
    for strategy in config.strategies:
        rounds, stream = (traces[strategy, schedule] for schedule in ("rounds", "stream"))
        assert stream.total("groups/trained") == rounds.total("groups/trained") == 32
        ratio = rounds.total("decode_steps") / stream.total("decode_steps")
        assert ratio == 1 if strategy == "uniform" else ratio > 1.2
        assert stream.total("tokens/generated") < 1.15 * rounds.total("tokens/generated")
    rows = summarise(config, list(traces.values()))
    assert [row.rollouts_vs_ds.value for row in rows if row.strategy == "ds"] == [1, 1]
    assert [row.exact_rollouts_per_group is None for row in rows if row.strategy == "ds"] == [False, True]
    table = render_markdown(config, rows)
    assert "| schedule |" in table and "decode steps" in table
    assert any("32 rollouts decoded at a time" in line for line in notes(config))


def test_time_is_told_only_where_it_is_asked_for(config):
    plain = config.model_copy(update={"places": None, "grid": type(config.grid)()})
    run = Run("sara", plain.allocation)
    trace = simulate(plain, run, 0)
    assert np.isnan(trace.steps["decode_steps"]).all()
    row = summarise(plain, [trace])[0]
    assert row.decode_steps_per_group is None and "decode steps" not in render_markdown(plain, [row])


def test_timing_changes_nothing_in_rounds(config):
    run = Run("sara", config.allocation)
    timed, plain = (simulate(config.model_copy(update={"places": places}), run, 0) for places in (32, None))
    for metric in set(timed.steps) - {"decode_steps"}:
        np.testing.assert_array_equal(timed.steps[metric], plain.steps[metric])
