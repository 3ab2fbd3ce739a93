from __future__ import annotations

import numpy as np
import pytest

from sara.planning.pilot import Counts, fit_rates, mixed_share_interval, refit_rates
from sara.simulation.exact import ds_costs
from sara.simulation.mixtures import POPULATIONS


def pilot_of(name: str, prompts: int, n: int = 8, seed: int = 0) -> Counts:
    rng = np.random.default_rng(seed)
    successes = rng.binomial(n, POPULATIONS[name].sample(prompts, rng))
    found, counts = np.unique(successes, return_counts=True)
    return Counts(np.full(found.size, n), found, counts.astype(float))


def mixed(mixture, k: int) -> float:
    return float(ds_costs(mixture, k).effective)


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_share_of_mixed_groups_is_found_up_to_the_pilots_size(name):
    """5,000 prompts of 8 rollouts. The share at k has a standard error of sqrt(p (1-p) / 5000) < 0.0071 at most."""
    fitted = fit_rates(pilot_of(name, 5000))
    for k in (2, 4, 8):
        assert mixed(fitted, k) == pytest.approx(mixed(POPULATIONS[name], k), abs=4 * 0.0071)


def test_the_fit_gives_back_the_counts_it_was_made_of():
    """At k = n the share of mixed groups is the one observed: 3 of 8 rollouts, 2 of 10 prompts, all others failed."""
    fitted = fit_rates(Counts(np.array([8, 8]), np.array([0, 3]), np.array([8.0, 2.0])))
    assert mixed(fitted, 8) == pytest.approx(0.2, abs=0.005)
    assert float(fitted.mean) == pytest.approx(0.2 * 3 / 8, abs=0.005)


def test_counts_are_not_taken_for_rates():
    """Rates of 0.1: 43% of the pilots of 8 see no success, but no group of 64 would be all wrong."""
    counts = np.random.default_rng(1).binomial(8, 0.1, 4000)
    found, prompts = np.unique(counts, return_counts=True)
    fitted = fit_rates(Counts(np.full(found.size, 8), found, prompts.astype(float)))
    assert (counts == 0).mean() == pytest.approx(0.43, abs=0.03)
    assert float(fitted.moment(0, 64)) < 0.08


def test_pilots_of_different_sizes_are_used_together():
    small, large = pilot_of("saturated", 2000, 4), pilot_of("saturated", 2000, 32, seed=1)
    together = Counts(*(np.concatenate(pair) for pair in zip(small, large, strict=True)))
    assert mixed(fit_rates(together), 32) == pytest.approx(mixed(POPULATIONS["saturated"], 32), abs=0.05)
    assert fit_rates(Counts(np.array([2000]), np.array([1000]), np.array([1.0]))).mean == pytest.approx(0.5, abs=0.02)


def test_the_interval_of_refits_holds_the_truth_as_often_as_it_says():
    """20 pilots of 300 prompts: a 95% interval misses more than 4 of them with a chance of 0.3%."""
    truth, misses = mixed(POPULATIONS["saturated"], 8), 0
    for seed in range(20):
        fits = refit_rates(pilot_of("saturated", 300, seed=seed), 60, np.random.default_rng(seed))
        low, high = np.percentile([mixed(fit, 8) for fit in fits], [2.5, 97.5])
        misses += not low <= truth <= high
        assert high - low < 0.15
    assert misses <= 4


@pytest.mark.parametrize("successes", [0, 8])
@pytest.mark.parametrize(("prompts", "highest"), [(2, 0.842), (20, 0.168), (100, 0.0362)])
def test_no_mixed_group_in_a_pilot_leaves_a_share_open(successes, prompts, highest):
    """At most 1 - 0.025^(1/M) of the groups are mixed: a larger share leaves all of M saturated in under 2.5%."""
    counts = Counts(np.array([8]), np.array([successes]), np.array([float(prompts)]))
    low, high = mixed_share_interval(counts, 8, 20, np.random.default_rng(0))
    assert low == pytest.approx(0, abs=1e-4) and high == pytest.approx(1 - 0.025 ** (1 / prompts))
    assert high == pytest.approx(highest, abs=5e-4)


def test_mixed_groups_only_in_a_pilot_leave_a_share_open():
    counts = Counts(np.array([8, 8]), np.array([3, 5]), np.array([12.0, 8.0]))
    low, high = mixed_share_interval(counts, 8, 20, np.random.default_rng(0))
    assert low == pytest.approx(0.025 ** (1 / 20)) and high == 1


def test_one_rollout_a_prompt_says_nothing_of_mixed_groups():
    counts = Counts(np.array([1, 1]), np.array([0, 1]), np.array([30.0, 10.0]))
    assert mixed_share_interval(counts, 8, 5, np.random.default_rng(0)) == (0, 1)
