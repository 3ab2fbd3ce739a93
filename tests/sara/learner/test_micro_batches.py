"""How a step's rollouts are dealt to updates, and those of an update to micro-batches."""

from __future__ import annotations

import numpy as np

from sara.learner import TrainingExample
from sara.learner.examples import split_by_group
from sara.learner.micro_batches import split_by_tokens


def test_the_parts_of_a_step_hold_whole_groups_and_every_group_once(make_rollout):
    rng = np.random.default_rng(0)
    prompts = rng.integers(0, 7, size=40)
    examples = [TrainingExample(make_rollout((1,), (2,), int(prompt)), 1.0) for prompt in prompts]
    parts = list(split_by_group(examples, 3, rng))
    assert len(parts) == 3 and sorted(i for part in parts for i in part) == list(range(40))
    groups = [{int(prompts[i]) for i in part} for part in parts]
    assert sum(map(len, groups)) == len(set(prompts.tolist()))
    again = list(split_by_group(examples, 3, np.random.default_rng(5)))
    other = list(split_by_group(examples, 3, np.random.default_rng(6)))
    assert again == list(split_by_group(examples, 3, np.random.default_rng(5))) != other


def test_micro_batches_hold_every_rollout_once_within_their_padded_size():
    rng = np.random.default_rng(0)
    lengths = (3 + rng.integers(1, 40, size=60)).tolist()
    parts = list(split_by_tokens(lengths, 100))
    assert sorted(i for part in parts for i in part) == list(range(60))
    sizes = [len(part) * max(lengths[i] for i in part) for part in parts]
    assert max(sizes) <= 100
    assert len(parts) < 25  # 60 rollouts of 23 tokens on average: 13.8 parts at the least
    assert list(split_by_tokens(lengths, 1)) == [[i] for part in parts for i in part]


def test_packed_micro_batches_are_filled_to_the_budget_whatever_the_lengths():
    lengths = [5, 1, 9, 2, 2, 7]
    parts = list(split_by_tokens(lengths, 10, is_packed=True))
    assert sorted(i for part in parts for i in part) == list(range(6))
    assert [sum(lengths[i] for i in part) for part in parts] == [10, 7, 9]
    assert list(split_by_tokens([], 10)) == []
