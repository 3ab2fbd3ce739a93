"""The contract of allocators: how many rollouts does each open prompt get now?

Owns `Limits`, the abstract `Allocator`, and the arithmetic of a budget that all of them share. Never draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sara.allocation.beliefs import saturated_tables
from sara.allocation.ledger import Fate, Ledger


@dataclass(frozen=True)
class Limits:
    """What ends a step. At least one of `target` and `budget` is set.

    target      committed groups wanted (B); the cost varies
    budget      rollouts that may be drawn, redraws included: a hard cap
    max_rounds  rounds that may be played
    """

    target: int | None = None
    budget: int | None = None
    max_rounds: int | None = None

    def __post_init__(self) -> None:
        if self.target is None and self.budget is None:
            raise ValueError("limits: neither target nor budget is set; expected at least one of them")
        for name in ("target", "budget", "max_rounds"):
            if getattr(self, name) is not None:
                require_count(f"limits.{name}", getattr(self, name))

    def opens_at_least(self, k: int) -> int:
        """Prompts a step opens if every one of them commits, at least 1."""
        affordable = max(self.budget // k, 1) if self.budget is not None else self.target
        return min(affordable, self.target) if self.target is not None else affordable

    def is_reached_by(self, ledger: Ledger) -> bool:
        """Whether as many groups are committed as wanted."""
        return self.target is not None and ledger.num_committed >= self.target

    def is_last_round(self, ledger: Ledger) -> bool:
        """Whether the round about to begin is the last one allowed."""
        return self.max_rounds is not None and ledger.rounds + 1 >= self.max_rounds

    def rollouts_left(self, ledger: Ledger) -> int | None:
        """Rollouts the budget still allows; None without a budget."""
        return None if self.budget is None else self.budget - ledger.spent


class Allocator(ABC):
    """Decides from the ledger how many prompts to open, what each of them draws, and what has become of it.

    One round is: `num_to_open`, `allocate`, the draws, `judge`.

    k                group size, at least 2
    alpha0, beta0    Beta prior of a prompt's success rate, finite and above 0
    max_rounds       a cap of the allocator's own, which holds beside that of the limits
    fills_committed  whether a committed group goes on to k
    """

    max_rounds: int | None = None
    fills_committed: bool = True

    def __init__(self, k: int, alpha0: float = 1.0, beta0: float = 1.0) -> None:
        require_count("allocator.k", k, at_least=2)
        for name, value in (("alpha0", alpha0), ("beta0", beta0)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"allocator.{name} = {value}; expected a finite number above 0")
        self.k = int(k)
        self.alpha0, self.beta0 = float(alpha0), float(beta0)
        self._if_fail, self._if_pass = saturated_tables(self.k, self.alpha0, self.beta0)

    @abstractmethod
    def num_to_open(self, ledger: Ledger, limits: Limits) -> int:
        """How many fresh prompts the next round opens; 0 is allowed."""

    @abstractmethod
    def allocate(self, ledger: Ledger, limits: Limits) -> NDArray[np.int64]:
        """(O,) int64: rollouts each row draws in the next round; all zero ends the step."""

    @abstractmethod
    def judge(self, ledger: Ledger) -> None:
        """Set the fate of the rows that are OPEN or AUDITED by what is counted of them: the whole of their round, or
        in a stream every further rollout."""

    def end_step(self, ledger: Ledger) -> dict[str, float]:
        """Learn from a finished step; returns what it decided by and what it believes, under metric names."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What lasts from step to step."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state; got {sorted(state)}")

    def outstanding(self, ledger: Ledger) -> NDArray[np.int64]:
        """(O,) int64: rollouts each row may still ask for. A budget keeps them in reserve."""
        return np.where(ledger.fate == Fate.OPEN, self.k - ledger.issued, 0)

    def chances(self, ledger: Ledger) -> NDArray[np.float64]:
        """(O,) float64: `prob_effective` of each row under this allocator's prior, by table."""
        saturated = np.where(ledger.s == 0, self._if_fail[ledger.n], self._if_pass[ledger.n])
        return np.where(ledger.is_mixed, 1.0, saturated)

    def num_affordable(self, ledger: Ledger, limits: Limits) -> int | None:
        """Prompts that can be opened with k rollouts in reserve for each; None without a budget."""
        left = limits.rollouts_left(ledger)
        return None if left is None else max(left - int(self.outstanding(ledger).sum()), 0) // self.k


def within_budget(
    counts: NDArray[np.int64], is_first: NDArray[np.bool_], rollouts_left: int | None
) -> NDArray[np.int64]:
    """Cut `counts` (O,) so that they sum to at most `rollouts_left`, serving the rows of `is_first` first.

    Every prompt is opened with its k rollouts in reserve, so this cuts only where redraws ate the reserve.
    """
    if rollouts_left is None or counts.sum() <= rollouts_left:
        return counts
    order = np.argsort(~is_first, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    cut = np.empty_like(counts)
    cut[order] = np.clip(rollouts_left - before, 0, counts[order])
    return cut


def mark_saturated(ledger: Ledger, rows: NDArray[np.bool_]) -> None:
    """Abandon `rows` (O,) bool, all of them saturated with n >= 1, as all-fail or all-pass."""
    ledger.settle(rows & (ledger.s == 0), Fate.ABANDONED_FAIL)
    ledger.settle(rows & (ledger.s > 0), Fate.ABANDONED_PASS)


def require_count(name: str, value: int, at_least: int = 1) -> None:
    """Raise ValueError unless `value` is an integer of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise ValueError(f"{name} = {value!r}; expected an integer of at least {at_least}")
