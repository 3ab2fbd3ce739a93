"""Dynamics-predictive sampling: a small hidden Markov model of each prompt says which will be mixed next.

Owns the beliefs over {all-fail, mixed, all-pass} and the selector that opens the prompts most likely mixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sara.selection.base import Evidence
from sara.selection.ranking import RankingSelector
from sara.selection.shuffle import require_same_pool

ALL_FAIL, MIXED, ALL_PASS = 0, 1, 2
_BLOCK = 8192  # prompts moved together: their 15 numbers and the temporaries fit in a second-level cache


class DPSBeliefs:
    """For each prompt a belief over its 3 states and Dirichlet counts over their transitions (DPS).

    num_prompts  P
    decay        share of the counts kept at each step, in [0, 1]; the rest returns to the prior
    prior        pseudo-count of every transition, above 0

    A step reads and writes every prompt once, in place, in blocks that stay in the processor's cache; prompts are
    the last axis inside, so that each operation runs along contiguous numbers. 120 bytes a prompt.
    """

    def __init__(self, num_prompts: int, decay: float = 0.7, prior: float = 1.0) -> None:
        if num_prompts < 1:
            raise ValueError(f"num_prompts = {num_prompts}; expected at least 1")
        if not 0 <= decay <= 1:
            raise ValueError(f"decay = {decay}; expected a number in [0, 1]")
        if not (np.isfinite(prior) and prior > 0):
            raise ValueError(f"prior = {prior}; expected a finite number above 0")
        self.num_prompts = int(num_prompts)
        self.decay, self.prior = float(decay), float(prior)
        self._mu_post = np.full((3, num_prompts), 1 / 3)
        self._mu_prior = np.full((3, num_prompts), 1 / 3)
        self._alpha = np.full((3, 3, num_prompts), self.prior)

    @property
    def mu_post(self) -> NDArray[np.float64]:
        """(P, 3) belief over the state of the step just seen: a copy, as are the next two."""
        return _copied(self._mu_post)

    @property
    def mu_prior(self) -> NDArray[np.float64]:
        """(P, 3) belief over the state of the next step."""
        return _copied(self._mu_prior)

    @property
    def alpha(self) -> NDArray[np.float64]:
        """(P, 3, 3) counts [prompt, to, from]."""
        return _copied(self._alpha)

    def mixed_next(self, prompts: NDArray[np.int64]) -> NDArray[np.float64]:
        """(C,) belief that each of `prompts` (C,) will be mixed in the next step."""
        return self._mu_prior[MIXED, prompts]

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
        joint = self._expected_joint(prompts, states)  # under the counts before they fade
        for start in range(0, self.num_prompts, _BLOCK):
            self._move_unseen(slice(start, start + _BLOCK))
        self._mu_post, self._mu_prior = self._mu_prior, self._mu_post
        self._alpha[:, :, prompts] += joint
        self._mu_post[:, prompts] = states.T
        self._mu_prior[:, prompts] = _one_step_ahead(self._alpha[:, :, prompts], states.T)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("mu_post", "mu_prior", "alpha")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_same_pool(self.num_prompts, {"num_prompts": len(state["mu_post"])})
        for name in ("mu_post", "mu_prior", "alpha"):
            prompts_last = np.moveaxis(np.asarray(state[name], dtype=np.float64), 0, -1)
            setattr(self, f"_{name}", np.array(prompts_last, order="C"))

    def _expected_joint(self, prompts: NDArray[np.int64], states: NDArray[np.float64]) -> NDArray[np.float64]:
        """(3, 3, O): for each prompt seen, the chances of (to, from) given its state now and its belief before."""
        alpha = self._alpha[:, :, prompts]
        joint = states.T[:, None] * self._mu_post[:, prompts] * alpha / alpha.sum(axis=0)
        return joint / joint.sum(axis=(0, 1))

    def _move_unseen(self, block: slice) -> None:
        """Fade the counts of a block, and write its beliefs one step after `mu_prior` over `mu_post`."""
        alpha = self._alpha[:, :, block]
        alpha *= self.decay
        alpha += (1 - self.decay) * self.prior
        self._mu_post[:, block] = _one_step_ahead(alpha, self._mu_prior[:, block])

    def _checked(self, prompts: ArrayLike, states: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        prompts, states = np.asarray(prompts).reshape(-1), np.asarray(states, dtype=np.float64)
        if prompts.size and (prompts.min() < 0 or prompts.max() >= self.num_prompts):
            raise ValueError(f"prompts from {prompts.min()} to {prompts.max()}; expected 0 to {self.num_prompts - 1}")
        if states.shape != (prompts.size, 3):
            raise ValueError(f"{prompts.size} prompts with observations of shape {states.shape}; expected one each")
        if np.unique(prompts).size < prompts.size:
            raise ValueError("a prompt is observed twice in one step; expected each at most once")
        if states.size and not (states.min() >= 0 and np.allclose(states.sum(axis=1), 1)):
            raise ValueError("observed states are not distributions; expected rows >= 0 that sum to 1")
        return prompts.astype(np.int64), states


def _one_step_ahead(alpha: NDArray[np.float64], belief: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(alpha) belief: (3, N) from counts (3, 3, N) and beliefs (3, N), each column of P a distribution over `to`."""
    weights = belief / (alpha[0] + alpha[1] + alpha[2])  # (from, N)
    ahead = alpha[:, 0] * weights[0]
    ahead += alpha[:, 1] * weights[1]
    ahead += alpha[:, 2] * weights[2]
    return ahead


def _copied(prompts_last: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same numbers, prompts first."""
    return np.array(np.moveaxis(prompts_last, -1, 0), order="C")


class DPSSelector(RankingSelector):
    """Opens, out of a shuffled pool of candidates, the prompts that DPS believes most likely to be mixed.

    decay, prior                      of the `DPSBeliefs`
    candidate_ratio, groups_per_step  of the `RankingSelector`
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
        super().__init__(num_prompts, seed, candidate_ratio, groups_per_step)
        self.beliefs = DPSBeliefs(num_prompts, decay, prior)

    def scores(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.beliefs.mixed_next(candidates)

    def end_step(self, evidence: Evidence) -> None:
        is_seen = evidence.n > 0
        self.beliefs.observe(evidence.prompts[is_seen], soft_states(evidence)[is_seen])

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"beliefs": self.beliefs.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.beliefs.load_state_dict(state["beliefs"])


def soft_states(evidence: Evidence) -> NDArray[np.float64]:
    """What a group says of its state *at k*: p_eff on mixed, the rest on the saturated state it shows so far.

    returns  (O, 3) float64, rows sum to 1; one-hot for a mixed group and for one that reached k
    """
    states = np.zeros((evidence.n.size, 3))
    states[:, MIXED] = evidence.p_eff
    states[np.arange(evidence.n.size), np.where(evidence.s == 0, ALL_FAIL, ALL_PASS)] = 1 - evidence.p_eff
    return states
