from __future__ import annotations

import numpy as np
import pytest

from sara.advantages import RateBeliefs


def test_a_prompt_never_seen_is_believed_to_be_what_the_prior_says():
    assert RateBeliefs(3, 1.0, 3.0).rates(np.array([2, 0])).tolist() == [0.25, 0.25]


def test_beliefs_are_posterior_means_of_fading_counts():
    # Prior Beta(1, 1), memory 1/2. Step 1: 3 of 4 right: 4 / 6. Step 2, not drawn: counts 1.5 and 0.5: 2.5 / 4.
    # Step 3: 0 of 2: counts 0.75 and 0.25 + 2: 1.75 / 5.
    beliefs, one = RateBeliefs(2, 1.0, 1.0, memory=0.5), np.array([1])
    beliefs.observe(one, np.array([4]), np.array([3]))
    assert beliefs.rates(one)[0] == pytest.approx(4 / 6)
    beliefs.observe(np.array([0]), np.array([2]), np.array([2]))
    assert beliefs.rates(one)[0] == pytest.approx(2.5 / 4)
    beliefs.observe(one, np.array([2]), np.array([0]))
    assert beliefs.rates(one)[0] == pytest.approx(1.75 / 5)


def test_beliefs_survive_being_saved():
    beliefs, again = RateBeliefs(4, 2.0, 1.0), RateBeliefs(4, 2.0, 1.0)
    beliefs.observe(np.array([3, 1]), np.array([4, 8]), np.array([1, 8]))
    again.load_state_dict(beliefs.state_dict())
    beliefs.observe(np.array([3]), np.array([1]), np.array([1]))  # what was saved is a copy
    np.testing.assert_allclose(again.rates(np.arange(4)), [2 / 3, 10 / 11, 2 / 3, 3 / 7])
