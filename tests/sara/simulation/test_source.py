from __future__ import annotations

import numpy as np
import pytest

from sara.allocation import MISSING, Draws
from sara.simulation.source import LearningPopulation, PopulationSource


def draws_of(prompts, slots, attempts=0) -> Draws:
    prompts = np.asarray(prompts)
    return Draws(prompts, np.broadcast_to(slots, prompts.shape), np.full(prompts.shape, attempts))


def test_rewards_come_at_the_rates_of_the_table():
    rates = np.array([0.0, 0.25, 0.9, 1.0])
    prompts, slots = np.repeat(np.arange(4), 20_000), np.tile(np.arange(20_000), 4)
    outcomes = PopulationSource(rates, run_seed=1).draw(3, draws_of(prompts, slots))
    assert outcomes.rewards.dtype == np.int8
    shares = outcomes.rewards.reshape(4, -1).mean(axis=1)
    assert shares[0] == 0 and shares[3] == 1
    assert np.abs(shares - rates).max() < 4 * np.sqrt(0.25 / 20_000)


def test_the_same_rollout_is_the_same_in_any_company():
    source = PopulationSource(np.full(100, 0.5), run_seed=1, tokens_right=40, tokens_wrong=90)
    alone = source.draw(2, draws_of([7], 3))
    among = source.draw(2, draws_of(np.arange(100), 3))
    assert (alone.rewards[0], alone.tokens[0]) == (among.rewards[7], among.tokens[7])


def test_a_higher_rate_never_turns_a_right_rollout_wrong():
    draws = draws_of(np.arange(5000), 0)
    low = PopulationSource(np.full(5000, 0.3), 1).draw(1, draws).rewards
    high = PopulationSource(np.full(5000, 0.6), 1).draw(1, draws).rewards
    assert (low <= high).all() and low.sum() < high.sum()


def test_token_counts_have_the_given_means():
    source = PopulationSource(np.full(40_000, 0.5), 1, tokens_right=100, tokens_wrong=np.full(40_000, 300.0))
    rewards, tokens = source.draw(1, draws_of(np.arange(40_000), 0))
    # Uniform between half and one and a half times the mean: standard deviation mean / sqrt(12).
    assert tokens[rewards == 1].mean() == pytest.approx(100, abs=4 * 100 / np.sqrt(12 * 20_000))
    assert tokens[rewards == 0].mean() == pytest.approx(300, abs=4 * 300 / np.sqrt(12 * 20_000))
    assert tokens.min() >= 50 and tokens.max() <= 450


def test_missing_rollouts_come_at_their_rate_and_independently_of_the_reward():
    source = PopulationSource(np.full(40_000, 0.5), 1, missing_rate=0.2)
    rewards = source.draw(1, draws_of(np.arange(40_000), 0)).rewards
    assert (rewards == MISSING).mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / 40_000))
    assert rewards[rewards != MISSING].mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / 32_000))
    again = source.draw(1, draws_of(np.flatnonzero(rewards == MISSING), 0, attempts=1)).rewards
    assert (again == MISSING).mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / 8000))


def test_rates_from_a_beta_distribution_have_its_mean_and_variance():
    rates = PopulationSource.from_beta(200_000, 0.1, 0.3, run_seed=0).success_rates
    assert rates.mean() == pytest.approx(0.25, abs=0.004)
    assert rates.var() == pytest.approx(0.1 * 0.3 / (0.4**2 * 1.4), abs=0.004)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"success_rates": [0.5, 1.2]}, r"success_rates from 0\.5 to 1\.2; expected 0 to 1"),
        ({"success_rates": [0.5], "tokens_wrong": 0}, r"tokens_wrong from 0\.0 to 0\.0"),
        ({"success_rates": [0.5], "missing_rate": -1}, r"missing_rate from -1\.0"),
    ],
)
def test_the_population_says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        PopulationSource(run_seed=0, **options)


def test_rates_rise_with_steps_and_with_training_by_hand():
    """Log-odds: ln(1/3) at 0.25. Step 3 has seen two drifts of ln 3 / 2, so 0.25 -> 0.5; a prompt trained on twice with
    a gain of ln 3 / 2 is at ln 3, so 0.75."""
    source = LearningPopulation([0.25, 0.25, 0.0, 1.0], 0, drift=np.log(3) / 2, gain=np.log(3) / 2)
    source.learn(np.array([1]))
    source.learn(np.array([1, 2]))
    np.testing.assert_allclose(source.rates(1, np.arange(4)), [0.25, 0.5, 0, 1])
    np.testing.assert_allclose(source.rates(3, np.arange(4)), [0.5, 0.75, 0, 1])
    np.testing.assert_allclose(source.success_rates, [0.25, 0.25, 0, 1])  # where they started


def test_a_fading_drift_adds_up_step_by_step():
    """Drift 1, 1/e after 4 steps: by step 4 it has added 1 + e^(-1/4) + e^(-2/4); for ever, 1 / (1 - e^(-1/4))."""
    source = LearningPopulation([0.5], 0, drift=1.0, fade_steps=4)
    log_odds = [np.log(rate / (1 - rate)) for rate in (source.rates(step, np.array([0]))[0] for step in (1, 4, 1000))]
    np.testing.assert_allclose(log_odds, [0, 1 + np.exp(-0.25) + np.exp(-0.5), 1 / (1 - np.exp(-0.25))])


def test_a_population_that_does_not_learn_keeps_its_rates_to_the_bit():
    rates = np.random.default_rng(0).beta(0.1, 0.3, 1000)
    source = LearningPopulation(rates, 0)
    source.learn(np.arange(1000))
    np.testing.assert_array_equal(source.rates(50, np.arange(1000)), rates)
    draws = draws_of(np.arange(1000), 0)
    np.testing.assert_array_equal(source.draw(9, draws).rewards, PopulationSource(rates, 0).draw(9, draws).rewards)
