"""Dynamics-predictive sampling: a small hidden Markov model of each prompt says which will be mixed next.

Owns the beliefs over {all-fail, mixed, all-pass} and the selector that opens the prompts most likely mixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sara.selection.base import Evidence, Selector
from sara.selection.shuffle import ShuffleSelector, require_same_pool

ALL_FAIL, MIXED, ALL_PASS = 0, 1, 2


class DPSBeliefs:
    """For each prompt a belief over its 3 states and Dirichlet counts over their transitions (DPS).

    num_prompts  P
    decay        share of the counts kept at each step, in [0, 1]; the rest returns to the prior
    prior        pseudo-count of every transition, above 0

    mu_post      (P, 3) float64, belief over the state of the step just seen
    mu_prior     (P, 3) float64, belief over the state of the next step
    alpha        (P, 3, 3) float64, counts [prompt, to, from]
    """

    def __init__(self, num_prompts: int, decay: float = 0.7, prior: float = 1.0) -> None:
        if num_prompts < 1:
            raise ValueError(f"num_prompts = {num_prompts}; expected at least 1")
        if not 0 <= decay <= 1:
            raise ValueError(f"decay = {decay}; expected a number in [0, 1]")
        if not (np.isfinite(prior) and prior > 0):
            raise ValueError(f"prior = {prior}; expected a finite number above 0")
        self.decay, self.prior = float(decay), float(prior)
        self.mu_post = np.full((num_prompts, 3), 1 / 3)
        self.mu_prior = np.full((num_prompts, 3), 1 / 3)
        self.alpha = np.full((num_prompts, 3, 3), self.prior)

    def update(self, prompts: ArrayLike, successes: ArrayLike, k: int) -> None:
        """Move every belief by one step; `prompts` were seen with `successes` of k rollouts right.

        prompts    (O,) integers in 0..P-1, all different; may be empty
        successes  (O,) integers in 0..k

        Raises ValueError on values outside these ranges.
        """
        prompts, successes = np.asarray(prompts), np.asarray(successes)
        if successes.size and (successes.min() < 0 or successes.max() > k):
            raise ValueError(f"successes from {successes.min()} to {successes.max()}; expected 0 to k = {k}")
        states = np.where(successes == 0, ALL_FAIL, np.where(successes == k, ALL_PASS, MIXED))
        self.observe(prompts, np.eye(3)[states.astype(np.int64)])

    def observe(self, prompts: ArrayLike, states: ArrayLike) -> None:
        """Move every belief by one step; `prompts` were seen in `states`, which may be soft.

        prompts  (O,) integers in 0..P-1, all different
        states   (O, 3) float64, each row a distribution over all-fail, mixed, all-pass

        A prompt not seen moves too: its belief goes one transition ahead and its counts fade to the prior.
        """
        prompts, states = self._checked(prompts, states)
        joint = states[:, :, None] * self.mu_post[prompts][:, None, :] * self._transitions(prompts)  # (O, to, from)
        joint /= joint.sum(axis=(1, 2), keepdims=True)
        self.alpha *= self.decay
        self.alpha += (1 - self.decay) * self.prior
        self.alpha[prompts] += joint
        self.mu_post = self.mu_prior.copy()
        self.mu_post[prompts] = states
        self.mu_prior = np.einsum("ptf,pf->pt", self._transitions(), self.mu_post)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in ("mu_post", "mu_prior", "alpha")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_same_pool(len(self.mu_post), {"num_prompts": len(state["mu_post"])})
        for name in ("mu_post", "mu_prior", "alpha"):
            setattr(self, name, np.array(state[name], dtype=np.float64))

    def _transitions(self, prompts: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
        """P = alpha / column sums: [prompt, to, from], each column a distribution over `to`."""
        alpha = self.alpha[prompts]
        return alpha / alpha.sum(axis=1, keepdims=True)

    def _checked(self, prompts: ArrayLike, states: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        prompts, states = np.asarray(prompts).reshape(-1), np.asarray(states, dtype=np.float64)
        if prompts.size and (prompts.min() < 0 or prompts.max() >= len(self.mu_post)):
            raise ValueError(f"prompts from {prompts.min()} to {prompts.max()}; expected 0 to {len(self.mu_post) - 1}")
        if states.shape != (prompts.size, 3):
            raise ValueError(f"{prompts.size} prompts with observations of shape {states.shape}; expected one each")
        if np.unique(prompts).size < prompts.size:
            raise ValueError("a prompt is observed twice in one step; expected each at most once")
        if states.size and not (states.min() >= 0 and np.allclose(states.sum(axis=1), 1)):
            raise ValueError("observed states are not distributions; expected rows >= 0 that sum to 1")
        return prompts.astype(np.int64), states


class DPSSelector(Selector):
    """Opens, out of a shuffled pool of candidates, the prompts that DPS believes most likely to be mixed.

    candidate_ratio   candidates for each group of the batch
    groups_per_step   B; None: what `begin_step` says the step opens

    Candidates come in the order of a seeded shuffle, which also breaks ties. When a step asks for more
    prompts than there are candidates, the next ones are taken and ranked.
    """

    def __init__(
        self,
        num_prompts: int,
        seed: int,
        decay: float = 0.7,
        candidate_ratio: int = 16,
        groups_per_step: int | None = None,
        prior: float = 1.0,
    ) -> None:
        if candidate_ratio < 1:
            raise ValueError(f"candidate_ratio = {candidate_ratio}; expected at least 1")
        self.beliefs = DPSBeliefs(num_prompts, decay, prior)
        self.candidate_ratio, self.groups_per_step = candidate_ratio, groups_per_step
        self._order = ShuffleSelector(num_prompts, seed)
        self._ranked = np.empty(0, dtype=np.int64)  # candidates of this step not opened yet, best first
        self._pool_size = 0

    def begin_step(self, step: int, opens_at_least: int) -> None:
        self._order.begin_step(step)
        self._pool_size = int(np.ceil(self.candidate_ratio * (self.groups_per_step or opens_at_least)))
        self._ranked = self._ranked_candidates()

    def select(self, count: int) -> NDArray[np.int64]:
        taken = self._ranked[:count]
        self._ranked = self._ranked[count:]
        while taken.size < count:
            self._ranked = self._ranked_candidates()
            if not self._ranked.size:
                break
            missing = count - taken.size
            taken, self._ranked = np.append(taken, self._ranked[:missing]), self._ranked[missing:]
        return taken

    def end_step(self, evidence: Evidence) -> None:
        is_seen = evidence.n > 0
        self.beliefs.observe(evidence.prompts[is_seen], soft_states(evidence)[is_seen])

    def state_dict(self) -> dict[str, Any]:
        order, beliefs = self._order.state_dict(), self.beliefs.state_dict()
        return {
            "order": order,
            "beliefs": beliefs,
            "ranked": self._ranked.copy(),
            "pool_size": self._pool_size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._order.load_state_dict(state["order"])
        self.beliefs.load_state_dict(state["beliefs"])
        self._ranked = np.array(state["ranked"], dtype=np.int64)
        self._pool_size = int(state["pool_size"])

    def _ranked_candidates(self) -> NDArray[np.int64]:
        candidates = self._order.select(self._pool_size)
        return candidates[np.argsort(-self.beliefs.mu_prior[candidates, MIXED], kind="stable")]


def soft_states(evidence: Evidence) -> NDArray[np.float64]:
    """What a group says of its state *at k*: p_eff on mixed, the rest on the saturated state it shows so far.

    returns  (O, 3) float64, rows sum to 1; one-hot for a mixed group and for one that reached k
    """
    states = np.zeros((evidence.n.size, 3))
    states[:, MIXED] = evidence.p_eff
    states[np.arange(evidence.n.size), np.where(evidence.s == 0, ALL_FAIL, ALL_PASS)] = 1 - evidence.p_eff
    return states
