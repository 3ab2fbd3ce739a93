"""How the losses of tokens become the loss of a batch: a constant weight for the tokens of each rollout.

The weights are fixed by the whole batch before anything is computed, so that a gradient does not depend on how the
batch is cut into micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def token_weights(
    aggregation: str, lengths: Array, group_ids: Array, longest: int | None = None, equal_groups: bool = False
) -> Array:
    """Weight of each token's loss, the same for all tokens of a rollout.

    aggregation    a name in `AGGREGATIONS`
    lengths        (N,) int64 >= 0, trained tokens of each rollout of the batch; those without any count nowhere
    group_ids      (N,) integers
    longest        longest response in tokens, for "constant"
    equal_groups   every group weighs as much as any other, however many rollouts or tokens it has
    returns        (N,) float64, 0 for a rollout without trained tokens; the loss is the weighted sum over tokens
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    weights, is_trained = np.zeros(len(lengths)), lengths > 0
    if not is_trained.any():
        return weights
    _, groups = np.unique(np.asarray(group_ids)[is_trained], return_inverse=True)
    if equal_groups and aggregation == "token":
        aggregation = "group"
    found = AGGREGATIONS[aggregation](lengths[is_trained], groups, longest)
    if equal_groups and aggregation != "group":
        found = found * len(groups) / (groups.max() + 1) / np.bincount(groups)[groups]  # was 1 / N, is 1 / (G n_g)
    weights[is_trained] = found
    return weights


def _by_token(lengths: Array, groups: Array, longest: int | None) -> Array:
    """1 / T: the mean over all tokens of the batch (DAPO, Yu et al. 2025, sec. 3.3)."""
    return np.full(len(lengths), 1 / lengths.sum())


def _by_sequence(lengths: Array, groups: Array, longest: int | None) -> Array:
    """1 / (N L_i): the mean over rollouts of the mean over tokens (GRPO, Shao et al. 2024, eq. 3)."""
    return 1 / (len(lengths) * lengths)


def _by_group(lengths: Array, groups: Array, longest: int | None) -> Array:
    """1 / (G T_g): the mean over groups of the mean over the group's tokens."""
    tokens = np.bincount(groups, weights=lengths)
    return 1 / (len(tokens) * tokens[groups])


def _by_constant(lengths: Array, groups: Array, longest: int | None) -> Array:
    """1 / (N longest): no length in the denominator (Dr.GRPO, Liu et al. 2025, sec. 3.2)."""
    assert longest, "constant-length aggregation without a longest response"
    return np.full(len(lengths), 1 / (len(lengths) * longest))


AGGREGATIONS: dict[str, Callable[[Array, Array, int | None], Array]] = {
    "token": _by_token,
    "sequence": _by_sequence,
    "group": _by_group,
    "constant": _by_constant,
}
