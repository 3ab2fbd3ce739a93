"""SARA: sequential adaptive rollout allocation.

Owns the two-threshold stopping rule (commit a mixed group, abandon one that will most likely stay saturated)
and the pacing that finishes a step in a few rounds. Never draws, never knows which prompts it opens.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sara.allocation.audits import AuditTally
from sara.allocation.base import Allocator, Limits, mark_saturated, require_count, within_budget
from sara.allocation.boundaries import Objective, OnCommit, Value
from sara.allocation.ledger import Fate, Ledger
from sara.allocation.stopping import AUTO, Cost, StoppingRule

_INDIFFERENCE = 0.003  # a gain of less is not worth an effective group
_MIN_COMMIT_RATE = 0.05  # opening is sized as if at least this share commits: bounds what one round can cost


class SequentialAllocator(Allocator):
    """Probe prompts in batched rounds; commit, abandon or continue each by what is believed of its success rate.

    tau_low            abandon when p_eff < tau_low, in [0, 1); 0 never abandons before n = k. "auto": abandon where
                       it pays most under the learned prior, differently after failures than after successes
    probe              rollouts of a prompt's first round, 1..k, or "auto": up to where it may first be abandoned
    increment          rollouts of each later round, or "auto" likewise
    alpha0, beta0      Beta prior of a prompt's success rate
    on_commit          "fill": draw the missing k - n in the next round, so every trained group has exactly k;
                       "stop": train on the rollouts seen so far
    margin             with a target, prompts are opened so that the commits expected of them exceed the shortfall
                       by this many standard deviations; 0 opens just what the shortfall needs on average
    memory             share of the commit counts kept from one step to the next, in [0, 1]
    max_false_abandon  with "auto", most of the effective groups that abandoning may lose, as a share in [0, 1]
    value, cost        with "auto", what is maximised: effective "groups", or the "signal" in them (the sum of
                       s/n (1 - s/n)), for each of the "rollouts" or "tokens" (by learned mean lengths) spent
    rounds_per_prompt  with "auto" in the pace, most rounds that one prompt may take, its fill included
    learn_prior        learn the prior behind p_eff from all outcomes. With a number for tau_low the decision stays
                       with Beta(alpha0, beta0); the learned prior paces the opening and is what selectors are told
    prior_memory       share of what is learned that is kept from one step to the next, in [0, 1]
    audit_rate         share of the abandoned prompts, drawn by lot, that are run on to k all the same
    train_audited      train on audited groups that turn out mixed, where the batch has room

    With a budget every open prompt holds what it may still need up to k in reserve, so nothing is opened that
    could not be finished. In fill mode the last round that `max_rounds` allows draws all that is missing, so
    that no group ends up shorter than k.

    docs/allocation.md has what `margin`, `max_false_abandon`, `learn_prior` and `audit_rate` bring and cost, measured.
    """

    def __init__(
        self,
        k: int = 8,
        tau_low: float | Literal["auto"] = 0.5,
        probe: int | Literal["auto"] = 4,
        increment: int | Literal["auto"] = 4,
        alpha0: float = 1.0,
        beta0: float = 1.0,
        on_commit: OnCommit = "fill",
        margin: float = 0.0,
        memory: float = 0.8,
        max_false_abandon: float = 0.25,
        value: Value = "groups",
        cost: Cost = "rollouts",
        rounds_per_prompt: int = 3,
        learn_prior: bool = True,
        prior_memory: float = 0.95,
        audit_rate: float = 0.01,
        train_audited: bool = True,
    ) -> None:
        super().__init__(k, alpha0, beta0)
        _require_threshold(tau_low, learn_prior)
        _require_pace(probe, increment, k)
        for name, value_, kind in (("on_commit", on_commit, OnCommit), ("value", value, Value), ("cost", cost, Cost)):
            _require_choice(name, value_, get_args(kind))
        require_count("allocator.rounds_per_prompt", rounds_per_prompt, at_least=2)
        if not np.isfinite(margin):
            raise ValueError(f"allocator.margin = {margin}; expected a finite number")
        shares = {"memory": memory, "prior_memory": prior_memory}
        for name, share in (shares | {"max_false_abandon": max_false_abandon, "audit_rate": audit_rate}).items():
            if not 0 <= share <= 1:
                raise ValueError(f"allocator.{name} = {share}; expected a number in [0, 1]")
        self.fills_committed = on_commit == "fill"
        self.on_commit, self.margin, self.memory = on_commit, float(margin), float(memory)
        self.audit_rate, self.train_audited = float(audit_rate), bool(train_audited)
        objective = Objective(value, on_commit, float(max_false_abandon), _INDIFFERENCE, int(rounds_per_prompt))
        self.stopping = StoppingRule(
            self.k,
            tau_low,
            probe,
            increment,
            self.alpha0,
            self.beta0,
            objective,
            cost,
            bool(learn_prior),
            float(prior_memory),
        )
        self._past_committed, self._past_resolved = 0.0, 0.0
        self._audits = AuditTally()
        self._has_warned = False

    @property
    def tau_low(self) -> float | Literal["auto"]:
        return self.stopping.tau_low

    @property
    def probe(self) -> int:
        """Rollouts of a first round, in the current step."""
        return self.stopping.boundaries.probe

    @property
    def increment(self) -> int:
        return self.stopping.boundaries.increment

    def judge(self, ledger: Ledger) -> None:
        """Commit if mixed; else abandon beyond the boundary, and always at n = k; else continue.

        Of those abandoned before k, the audited ones go on to k; there they commit if mixed.
        """
        is_seen = (ledger.fate == Fate.OPEN) & (ledger.n > 0)
        is_mixed = ledger.is_mixed
        is_complete_audit = (ledger.fate == Fate.AUDITED) & (ledger.n == self.k)
        ledger.settle(is_seen & is_mixed, Fate.COMMITTED)
        is_abandoned = is_seen & ~is_mixed & self.stopping.is_hopeless(ledger.n, ledger.s)
        mark_saturated(ledger, is_abandoned)
        is_audited = is_abandoned & (ledger.n < self.k) & (ledger.lots < self.audit_rate)
        ledger.settle(is_audited, Fate.AUDITED)
        ledger.is_audited |= is_audited
        if self.train_audited:
            ledger.settle(is_complete_audit & is_mixed, Fate.COMMITTED)

    def num_to_open(self, ledger: Ledger, limits: Limits) -> int:
        affordable = self.num_affordable(ledger, limits)
        if limits.target is None:
            return affordable
        wanted = self._num_to_open_for(limits.target - ledger.num_committed, ledger)
        return wanted if affordable is None else min(wanted, affordable)

    def allocate(self, ledger: Ledger, limits: Limits) -> NDArray[np.int64]:
        is_committed = ledger.fate == Fate.COMMITTED
        is_settled = is_committed | (ledger.fate == Fate.AUDITED)  # whatever is missing of them is drawn at once
        missing = self.outstanding(ledger)
        if limits.is_reached_by(ledger):
            counts = missing * is_settled
        elif self.on_commit == "fill" and limits.is_last_round(ledger):
            counts = missing
        else:
            pace = np.where(ledger.issued == 0, self.probe, self.increment)
            counts = np.minimum(missing, pace + self.k * is_settled)
        return within_budget(counts, is_committed, limits.rollouts_left(ledger))

    def chances(self, ledger: Ledger) -> NDArray[np.float64]:
        saturated = self.stopping.chances[(ledger.s > 0).astype(np.int64), ledger.n]
        return np.where(ledger.is_mixed, 1.0, saturated)

    def outstanding(self, ledger: Ledger) -> NDArray[np.int64]:
        waiting = (Fate.OPEN, Fate.AUDITED, *([Fate.COMMITTED] if self.on_commit == "fill" else []))
        return (self.k - ledger.issued) * ledger.has_fate(*waiting)

    def commit_rate(self, ledger: Ledger) -> float:
        """Share of resolved prompts that committed, now and (fading) in the steps before, one that did added.

        So the first round of all opens what is wanted, as DS does, and so does every step's where all groups commit.
        """
        committed, resolved = _count_resolved(ledger)
        return (1 + self._past_committed + committed) / (1 + self._past_resolved + resolved)

    def end_step(self, ledger: Ledger) -> dict[str, float]:
        committed, resolved = _count_resolved(ledger)
        self._past_committed = self.memory * (self._past_committed + committed)
        self._past_resolved = self.memory * (self._past_resolved + resolved)
        self._audits.record(ledger, self.k)
        is_auto = self.stopping.is_auto
        promised = (None, self.stopping.objective.max_false_abandon) if is_auto else (self.stopping.tau_low, None)
        audits = self._audits.metrics(*promised)
        self._warn_if_exceeded(audits)
        metrics = self.stopping.metrics() | audits
        self.stopping.learn(ledger)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return {
            "past_committed": self._past_committed,
            "past_resolved": self._past_resolved,
            "stopping": self.stopping.state_dict(),
            "audits": self._audits.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._past_committed = float(state["past_committed"])
        self._past_resolved = float(state["past_resolved"])
        self.stopping.load_state_dict(state["stopping"])
        self._audits.load_state_dict(state["audits"])

    def _warn_if_exceeded(self, audits: dict[str, float]) -> None:
        if self._has_warned or not audits.get("audit/exceeds"):
            return
        self._has_warned = True
        name = "max_false_abandon" if self.stopping.is_auto else "tau_low"
        found = "audit/lost_share_low" if self.stopping.is_auto else "audit/false_abandon_rate_low"
        what = "of the effective groups are lost" if self.stopping.is_auto else "of the abandoned groups were effective"
        promised = self.stopping.objective.max_false_abandon if self.stopping.is_auto else self.stopping.tau_low
        message = f"allocator.{name} = {promised}, but by the audits at least {audits[found]:.1%} {what}"
        warnings.warn(message, UserWarning, stacklevel=3)

    def _chances_to_commit(self, ledger: Ledger) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """How many open rows have each chance to commit: (C,) rows and (C,) chances, one for each side and n."""
        is_open = ledger.fate == Fate.OPEN
        cells = (1 + ledger.n + (self.k + 1) * (ledger.s > 0)) * is_open  # (O,), 0 for rows that are not open
        cells[is_open & ledger.is_mixed] = 2 * self.k + 3
        rows = np.bincount(cells, minlength=2 * self.k + 4)[1:]
        return rows, np.append(self.stopping.commit_chances, 1.0)

    def _num_to_open_for(self, shortfall: int, ledger: Ledger) -> int:
        """How many prompts m to open so that, with those open already, enough of them commit.

        Solves  mean - margin * deviation = shortfall,  where mean = sum(p) + m c,
        deviation^2 = sum(p (1 - p)) + m c (1 - c),  p = the open prompts' chances to commit and c = the commit
        rate.
        """
        if shortfall <= 0:
            return 0
        rows, chances = self._chances_to_commit(ledger)
        rate = max(self.commit_rate(ledger), _MIN_COMMIT_RATE)
        needed, variance = shortfall - rows @ chances, float(rows @ (chances * (1 - chances)))
        spread = 1 - rate  # variance of a fresh prompt's commit over its mean
        constant = variance + spread * needed
        # The deviation y is the positive root of y^2 - margin * spread * y - constant = 0; then m = the rest.
        root = (self.margin * spread) ** 2 + 4 * constant
        if root < 0:
            return 0  # the open prompts alone will do
        deviation = (self.margin * spread + np.sqrt(root)) / 2
        opens = (needed + self.margin * deviation) / rate
        return max(int(np.ceil(opens - 1e-9)), 0 if rows.any() else 1)  # 1e-9: a whole number stays whole


def _count_resolved(ledger: Ledger) -> tuple[int, int]:
    committed = ledger.has_fate(Fate.COMMITTED, Fate.SURPLUS)
    abandoned = ledger.has_fate(Fate.ABANDONED_FAIL, Fate.ABANDONED_PASS, Fate.AUDITED)
    return int(committed.sum()), int(committed.sum() + abandoned.sum())


def _require_threshold(tau_low: Any, learn_prior: bool) -> None:
    if tau_low == AUTO and not learn_prior:
        raise ValueError("allocator.learn_prior = False; expected True with tau_low = 'auto'")
    if tau_low != AUTO and (isinstance(tau_low, str) or not 0 <= tau_low < 1):
        raise ValueError(f"allocator.tau_low = {tau_low!r}; expected a number in [0, 1) or 'auto'")


def _require_pace(probe: Any, increment: Any, k: int) -> None:
    for name, count in (("probe", probe), ("increment", increment)):
        if count != AUTO:
            require_count(f"allocator.{name}", count)
    if probe != AUTO and probe > k:
        raise ValueError(f"allocator.probe = {probe}; expected at most k = {k}")


def _require_choice(name: str, choice: Any, allowed: tuple[str, ...]) -> None:
    if choice not in allowed:
        raise ValueError(f"allocator.{name} = {choice!r}; expected {' or '.join(map(repr, allowed))}")
