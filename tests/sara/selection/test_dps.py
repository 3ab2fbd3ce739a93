from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sara.selection import DPSBeliefs, DPSSelector, Evidence
from sara.selection.dps import soft_states

TRACES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dps_traces.json"
THIRD = 1 / 3


def test_two_steps_of_one_prompt_by_hand():
    """decay 0.5, prior 1. Columns are from, rows are to.

    Step 1, seen mixed: P is 1/3 everywhere, so the joint is 1/3 in each cell of the row *to mixed*, and alpha has
    4/3 there and 1 elsewhere; columns sum to 10/3, P(mixed | any) = 0.4, mu_prior = (0.3, 0.4, 0.3).
    Step 2, seen all-fail, having been mixed for sure: the joint is 1 in the one cell (fail from mixed);
    alpha = 0.5 * alpha + 0.5 + joint, so column *mixed* is (2, 7/6, 1), its sum 25/6, and the columns *fail* and
    *pass* are (1, 7/6, 1) with sum 19/6. From all-fail: mu_prior = (6/19, 7/19, 6/19).
    """
    beliefs = DPSBeliefs(2, decay=0.5)
    beliefs.update([0], [3], k=8)
    np.testing.assert_allclose(beliefs.alpha[0], [[1, 1, 1], [4 / 3] * 3, [1, 1, 1]], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_prior[0], [0.3, 0.4, 0.3], atol=1e-15)
    beliefs.update([0], [0], k=8)
    np.testing.assert_allclose(beliefs.alpha[0], [[1, 2, 1], [7 / 6] * 3, [1, 1, 1]], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_prior[0], [6 / 19, 7 / 19, 6 / 19], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_prior[1], [THIRD] * 3, atol=1e-15)


def test_a_prompt_that_is_not_observed_moves_too():
    """After one mixed observation (see above) and a step without one: alpha fades half-way to 1, so P(mixed | any)
    = (7/6) / (19/6) = 7/19, whatever the belief it is applied to."""
    beliefs = DPSBeliefs(2, decay=0.5)
    beliefs.update([0], [3], k=8)
    beliefs.update([1], [8], k=8)
    np.testing.assert_allclose(beliefs.mu_post[0], [0.3, 0.4, 0.3], atol=1e-15)
    np.testing.assert_allclose(beliefs.alpha[0], [[1, 1, 1], [7 / 6] * 3, [1, 1, 1]], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_prior[0], [6 / 19, 7 / 19, 6 / 19], atol=1e-15)


def test_beliefs_follow_the_reference_traces():
    if not TRACES.exists():
        pytest.skip("no reference traces: shared/cases/dps_traces.json is not beside the repository")
    for trace in json.loads(TRACES.read_text()):
        beliefs = DPSBeliefs(trace["num_prompts"], trace["decay"], trace["prior"])
        for step in trace["steps"]:
            beliefs.update(step["observed"], step["successes"], trace["k"])
            np.testing.assert_allclose(beliefs.mu_prior, step["mu_prior_next"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(beliefs.alpha, trace["final_alpha"], rtol=0, atol=1e-9)


@given(
    decay=st.floats(0, 1),
    prior=st.floats(0.01, 100),
    steps=st.lists(st.dictionaries(st.integers(0, 4), st.integers(0, 8)), max_size=12),
)
def test_beliefs_stay_distributions_and_counts_add_one_for_each_observation(decay, prior, steps):
    beliefs, total = DPSBeliefs(5, decay, prior), np.full(5, 9 * prior)
    for seen in steps:
        beliefs.update(list(seen), list(seen.values()), k=8)
        total = decay * total + (1 - decay) * 9 * prior
        total[list(seen)] += 1
        np.testing.assert_allclose(beliefs.mu_prior.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(beliefs.alpha.sum(axis=(1, 2)), total, rtol=1e-12)
        assert (beliefs.mu_prior >= 0).all() and (beliefs.alpha > 0).all()


def test_a_hard_observation_is_a_soft_one_with_all_its_weight_on_a_state():
    hard, soft = DPSBeliefs(3), DPSBeliefs(3)
    hard.update([0, 1, 2], [0, 5, 8], k=8)
    soft.observe([0, 1, 2], np.eye(3))
    np.testing.assert_array_equal(hard.alpha, soft.alpha)
    np.testing.assert_array_equal(hard.mu_prior, soft.mu_prior)


def test_a_soft_observation_by_hand():
    """From even beliefs the joint is 1/3 of each row's weight: (0.6, 0.4, 0) on fail, mixed and pass add 0.2 to each
    cell of row fail and 0.4/3 to row mixed. decay 0.5 leaves the rest at 1. Columns sum to 10/3: P(to | any) =
    (0.36, 0.34, 0.3)."""
    beliefs = DPSBeliefs(1, decay=0.5)
    beliefs.observe([0], [[0.6, 0.4, 0.0]])
    np.testing.assert_allclose(beliefs.alpha[0], [[1.2] * 3, [1 + 0.4 / 3] * 3, [1] * 3], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_post[0], [0.6, 0.4, 0.0], atol=1e-15)
    np.testing.assert_allclose(beliefs.mu_prior[0], [0.36, 0.34, 0.3], atol=1e-15)


def test_what_a_group_says_is_soft_when_it_stopped_before_k():
    n, s = np.array([4, 4, 3, 8, 8]), np.array([0, 4, 1, 0, 8])
    p_eff = np.array([4 / 9, 4 / 9, 1.0, 0.0, 0.0])
    states = soft_states(Evidence(np.arange(5), n, s, p_eff))
    expected = [[5 / 9, 4 / 9, 0], [0, 4 / 9, 5 / 9], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(states, expected, atol=1e-15)


def test_a_prompt_without_a_scored_rollout_counts_as_not_observed():
    selector, silent = DPSSelector(2, 0), DPSBeliefs(2)
    selector.begin_step(1, 2)
    selector.end_step(Evidence(np.array([0]), np.array([0]), np.array([0]), np.array([7 / 9])))
    silent.update([], [], k=8)
    np.testing.assert_array_equal(selector.beliefs.mu_prior, silent.mu_prior)
    np.testing.assert_array_equal(selector.beliefs.mu_post, silent.mu_post)


def selector_that_saw(mixed, failed, **options) -> DPSSelector:
    selector = DPSSelector(20, 0, **options)
    selector.begin_step(1, 1)
    prompts = np.array([*mixed, *failed])
    s = np.array([3] * len(mixed) + [0] * len(failed))
    selector.end_step(Evidence(prompts, np.full(prompts.size, 8), s, (s > 0).astype(float)))
    return selector


def test_prompts_last_seen_mixed_are_opened_first_and_ties_in_shuffled_order():
    selector = selector_that_saw(mixed=[4, 11], failed=[0, 1, 2], candidate_ratio=20)
    selector.begin_step(2, 1)
    order = selector.select(20).tolist()
    assert set(order[:2]) == {4, 11} and set(order[-3:]) == {0, 1, 2}
    shuffled = DPSSelector(20, 0, candidate_ratio=20)
    shuffled.begin_step(1, 1), shuffled.begin_step(2, 1)
    unseen = [prompt for prompt in shuffled.select(20).tolist() if prompt not in {0, 1, 2, 4, 11}]
    assert order[2:-3] == unseen


def test_candidates_are_the_ratio_times_the_groups_and_the_next_ones_follow():
    shuffled = DPSSelector(20, 0, candidate_ratio=20)
    shuffled.begin_step(1, 1), shuffled.begin_step(2, 1)
    pool = shuffled.select(20).tolist()
    best = pool[6]  # in the second pool of 5 candidates
    selector = selector_that_saw(mixed=[best], failed=[pool[0]], candidate_ratio=20)
    selector.candidate_ratio, selector.groups_per_step = 5, 1
    selector.begin_step(2, 1)
    assert selector.select(3).tolist() == pool[1:4]  # `best` is not a candidate yet
    assert selector.select(3).tolist() == [pool[4], pool[0], best]


@pytest.mark.parametrize(
    ("prompts", "successes", "message"),
    [
        ([5], [1], r"prompts from 5 to 5; expected 0 to 4"),
        ([-1], [1], r"prompts from -1 to -1"),
        ([1], [9], r"successes from 9 to 9; expected 0 to k = 8"),
        ([1, 1], [2, 3], r"observed twice"),
        ([1, 2], [2], r"2 prompts with observations of shape \(1, 3\)"),
    ],
)
def test_update_says_what_is_wrong(prompts, successes, message):
    with pytest.raises(ValueError, match=message):
        DPSBeliefs(5).update(prompts, successes, k=8)


@pytest.mark.parametrize("states", [[[0.5, 0.6, 0.0]], [[1.5, -0.5, 0.0]], [[np.nan, 0.5, 0.5]]])
def test_observed_states_must_be_distributions(states):
    with pytest.raises(ValueError, match="not distributions"):
        DPSBeliefs(5).observe([1], states)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"decay": 1.5}, r"decay = 1\.5"), ({"prior": 0.0}, r"prior = 0\.0"), ({"num_prompts": 0}, "num_prompts = 0")],
)
def test_beliefs_say_what_is_wrong_with_their_options(options, message):
    with pytest.raises(ValueError, match=message):
        DPSBeliefs(**{"num_prompts": 3, **options})


def test_candidate_ratio_must_be_at_least_one():
    with pytest.raises(ValueError, match="candidate_ratio = 0; expected at least 1"):
        DPSSelector(5, 0, candidate_ratio=0)


def test_a_large_pool_moves_as_the_formulas_say_in_every_block():
    """20,000 prompts against the three formulas written out over (P, to, from); 4 steps, some prompts seen."""
    num_prompts, decay, prior = 20_000, 0.7, 0.5
    beliefs, rng = DPSBeliefs(num_prompts, decay, prior), np.random.default_rng(5)
    alpha, mu_post, mu_prior = np.full((num_prompts, 3, 3), prior), beliefs.mu_post, beliefs.mu_prior
    for _ in range(4):
        seen, states = rng.choice(num_prompts, 500, replace=False), rng.dirichlet([1, 1, 1], 500)
        beliefs.observe(seen, states)
        joint = states[:, :, None] * mu_post[seen][:, None, :] * (alpha / alpha.sum(axis=1, keepdims=True))[seen]
        alpha = decay * alpha + (1 - decay) * prior
        alpha[seen] += joint / joint.sum(axis=(1, 2), keepdims=True)
        mu_post = mu_prior.copy()
        mu_post[seen] = states
        mu_prior = np.einsum("ptf,pf->pt", alpha / alpha.sum(axis=1, keepdims=True), mu_post)
    np.testing.assert_allclose(beliefs.alpha, alpha, rtol=1e-12)
    np.testing.assert_allclose(beliefs.mu_prior, mu_prior, rtol=1e-12)
    np.testing.assert_array_equal(beliefs.mixed_next(np.arange(num_prompts)), beliefs.mu_prior[:, 1])


def test_beliefs_that_were_read_do_not_move_with_the_next_step():
    beliefs = DPSBeliefs(3)
    before, counts = beliefs.mu_prior, beliefs.alpha
    beliefs.update([0], [0], k=8)
    np.testing.assert_allclose(before, 1 / 3)
    np.testing.assert_array_equal(counts, 1)
