"""From rollouts to training examples: what shapes the reward, which tokens are trained on, and their advantages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sara.advantages import Discounts, Estimates, ScoredRollouts, get_estimator, is_effective
from sara.config import LearnerConfig
from sara.learner.examples import Array, TrainingExample
from sara.learner.learner import Learner
from sara.losses import DIVERGENCES
from sara.rollouts import Rollout


def make_examples(
    rollouts: Sequence[Rollout], learner: Learner, max_new_tokens: int, beliefs: Array | None = None
) -> tuple[list[TrainingExample], dict[str, float]]:
    """Training examples of a step's rollouts, and figures on their advantages.

    max_new_tokens   where responses were cut
    beliefs          (N,) success rate believed of each rollout's prompt before the step; None: groups' own means
    """
    if not rollouts:
        return [], {}
    config = learner.config
    bare = [_bare_example(rollout, config) for rollout in rollouts]
    measured = learner.measure(bare)
    scored = _score(bare, measured, config, max_new_tokens, beliefs)
    estimates = _estimate(scored, config)
    return _with_estimates(bare, scored, estimates, measured), _figures(scored, estimates)


def length_penalties(lengths: Array, max_new_tokens: int, window: int, penalty: float) -> Array:
    """Reward taken off long responses: 0 up to `window` tokens before the limit, then linearly up to `penalty`
    at the limit (DAPO, Yu et al. 2025, eq. 13).

    lengths, returns   (N,)
    """
    return penalty * np.clip((lengths - (max_new_tokens - window)) / window, 0.0, 1.0)


def _bare_example(rollout: Rollout, config: LearnerConfig) -> TrainingExample:
    """Without an advantage yet; an answer that was cut is left out of the loss if so configured."""
    is_masked = config.overlong == "mask" and rollout.completion.finish_reason == "length"
    mask = np.zeros(len(rollout.completion.token_ids), dtype=bool) if is_masked else None
    return TrainingExample(rollout, 0.0, loss_mask=mask)


def _score(
    examples: Sequence[TrainingExample],
    measured: dict[str, list[Array]],
    config: LearnerConfig,
    max_new_tokens: int,
    beliefs: Array | None,
) -> ScoredRollouts:
    rewards = np.array([example.rollout.reward for example in examples], dtype=np.float64)
    group_ids = np.array([example.rollout.prompt for example in examples])
    effective = is_effective(rewards, group_ids)  # by the verifier: no shaping makes a saturated group teach
    if config.overlong == "penalty":
        lengths = np.array([example.response_tokens for example in examples])
        rewards = rewards - length_penalties(lengths, max_new_tokens, config.overlong_window, config.overlong_penalty)
    token_rewards = None
    if "old_logprobs" in measured:
        old, reference = (torch.from_numpy(np.concatenate(measured[n])) for n in ("old_logprobs", "reference_logprobs"))
        token_rewards = -config.kl_coef * DIVERGENCES[config.kl_estimator](old, reference).numpy()
    return ScoredRollouts(
        rewards=rewards,
        group_ids=group_ids,
        lengths=np.array([example.trained_tokens for example in examples]),
        is_effective=effective,
        token_rewards=token_rewards,
        values=np.concatenate(measured["values"]) if "values" in measured else None,
        beliefs=beliefs,
    )


def _estimate(scored: ScoredRollouts, config: LearnerConfig) -> Estimates:
    """By the configured algorithm; no numbers where the KL is none, so that the update is left out and counted."""
    if scored.token_rewards is not None and not np.isfinite(scored.token_rewards).all():
        nothing = np.full(len(scored.token_rewards), np.nan)
        return Estimates(nothing, nothing)
    return get_estimator(config.advantage).estimate(scored, Discounts(config.gamma, config.gae_lambda))


def _with_estimates(
    examples: Sequence[TrainingExample], scored: ScoredRollouts, estimates: Estimates, measured: dict[str, list[Array]]
) -> list[TrainingExample]:
    ends = np.cumsum(scored.lengths)[:-1]
    advantages = np.split(estimates.advantages, ends)
    returns = [None] * len(examples) if estimates.returns is None else np.split(estimates.returns, ends)
    nothing = [None] * len(examples)
    values = measured.get("values", nothing)
    references = measured.get("reference_logprobs", nothing)
    return [
        TrainingExample(e.rollout, a, e.loss_mask, r, v, k)
        for e, a, r, v, k in zip(examples, advantages, returns, values, references, strict=True)
    ]


def _figures(scored: ScoredRollouts, estimates: Estimates) -> dict[str, float]:
    """Means over trained tokens; none where there is no trained token."""
    advantages = estimates.advantages
    if not advantages.size:
        return {}
    figures = {
        "advantage/mean": float(advantages.mean()),
        "advantage/std": float(advantages.std()),
        "advantage/abs_max": float(np.abs(advantages).max()),
    }
    if scored.values is not None and estimates.returns is not None:
        figures["value/explained_variance"] = explained_variance(scored.values, estimates.returns)
        figures["value/mean"] = float(scored.values.mean())
    if scored.token_rewards is not None:
        figures["reward/kl_penalty"] = float(-scored.token_rewards.sum() / len(scored.rewards))
    return figures


def explained_variance(values: Array, returns: Array) -> float:
    """1 - Var(returns - values) / Var(returns): 1 for a perfect value function, 0 for a constant one.

    0 too where all returns are equal and there is nothing to explain.
    """
    variance = float(np.var(returns))
    return 1 - float(np.var(returns - values)) / variance if variance else 0.0
