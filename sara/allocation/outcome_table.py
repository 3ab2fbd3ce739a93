"""What was observed lately, in one table: how many prompts showed s successes in n rollouts, and their tokens.

Owns the counts and their forgetting. The likelihood of a success rate given (n, s) does not depend on why a
prompt was stopped, so abandoned prefixes count like whole groups. Never estimates a prior.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FORGOTTEN = 1e-3  # a cell of fewer prompts than this is dropped, so that old cells do not pile up
_SHORTEST = 1.0  # tokens; a fit through few prompts may fall below
_STEADY = 1.0  # rollouts' worth of "right ones are as long as wrong ones", which decides where nothing else does


class Cells(NamedTuple):
    """The cells of the table that hold anything, each (C,): n, s int64; count, tokens float64 (faded sums)."""

    n: NDArray[np.int64]
    s: NDArray[np.int64]
    count: NDArray[np.float64]
    tokens: NDArray[np.float64]


class OutcomeTable:
    """Counts over (n, s), at most (k+1)(k+2)/2 cells whatever the number of prompts.

    memory  share of every count kept from one step to the next, in [0, 1]: the policy moves
    """

    def __init__(self, k: int, memory: float) -> None:
        self.k, self.memory = k, memory
        self.cells = Cells(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
        self._weight, self._squares = 0.0, 0.0  # sums over the steps of what is left of each, and of its square

    def record(self, n: NDArray[np.int64], s: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
        """Fade what is known and add one step's prompts, (O,) each; prompts with n = 0 say nothing."""
        old, is_seen = self.cells, n > 0
        self._weight, self._squares = self.memory * self._weight + 1, self.memory**2 * self._squares + 1
        key = np.concatenate([old.n * (self.k + 1) + old.s, n[is_seen] * (self.k + 1) + s[is_seen]])
        count = np.concatenate([self.memory * old.count, np.ones(np.count_nonzero(is_seen))])
        total = np.concatenate([self.memory * old.tokens, tokens[is_seen]])
        cell, index = np.unique(key, return_inverse=True)
        count, total = (np.bincount(index, values, minlength=cell.size) for values in (count, total))
        is_kept = count >= _FORGOTTEN
        n, s = np.divmod(cell[is_kept], self.k + 1)
        self.cells = Cells(n, s, count[is_kept], total[is_kept])

    @property
    def num_steps(self) -> float:
        """How many steps, none of them faded, would tell as much: (sum of the weights)^2 / sum of their squares."""
        return self._weight**2 / self._squares

    @property
    def mean_weight(self) -> float:
        """Of what is counted, its mean weight: a faded count wavers less than a fresh one of the same size."""
        return self._squares / self._weight

    def mean_tokens(self) -> tuple[float, float]:
        """Mean tokens of a right and of a wrong rollout; (1, 1) before anything was seen.

        Least squares of tokens ~ right * s + wrong * (n - s), each prompt weighted by 1 / n.
        """
        n, s, count, tokens = self.cells
        if not tokens.sum() > 0:
            return 1.0, 1.0
        mean = tokens.sum() / (count * n).sum()
        seen = np.stack([s, n - s])  # (2, C)
        gram = (seen * (count / n)) @ seen.T + _STEADY * np.eye(2)
        excess = seen @ ((tokens - mean * count * n) / n)
        right, wrong = mean + np.linalg.solve(gram, excess)
        return float(max(right, _SHORTEST)), float(max(wrong, _SHORTEST))

    def state_dict(self) -> dict[str, Any]:
        columns = {name: column.copy() for name, column in self.cells._asdict().items()}
        return columns | {"weights": (self._weight, self._squares)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        types = dict(zip(Cells._fields, (np.int64, np.int64, np.float64, np.float64), strict=True))
        self._weight, self._squares = (float(weight) for weight in state["weights"])
        self.cells = Cells(**{name: np.array(state[name], dtype=kind) for name, kind in types.items()})
