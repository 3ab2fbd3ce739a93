"""The frozen reference that a KL is measured to: the model as training began, or another one."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.learner.adapters import adapters_off, has_adapters
from sara.learner.forward import TokenScorer
from sara.learner.micro_batches import MicroBatch


class Reference:
    """Log-probabilities under a model that is never trained.

    scorer          of the reference model
    is_policy_bare  the policy without its adapters serves as reference: no second model is held
    """

    def __init__(self, scorer: TokenScorer, is_policy_bare: bool = False) -> None:
        self.scorer = scorer
        self.is_policy_bare = is_policy_bare

    @torch.no_grad()
    def logprobs(self, batch: MicroBatch) -> Tensor:
        """(M,) of the trained tokens."""
        if not self.is_policy_bare:
            return self.scorer(batch).logprobs
        with adapters_off(self.scorer.model):
            return self.scorer(batch).logprobs


def make_reference(policy: TokenScorer, model: PreTrainedModel | None) -> Reference:
    """The reference `model`, or the policy as it is now where there is none.

    Raises ValueError for a model with fewer words than the policy.
    """
    if model is None and has_adapters(policy.model):
        return Reference(policy, is_policy_bare=True)
    model = copy.deepcopy(policy.model) if model is None else model
    sizes = [len(m.get_output_embeddings().weight) for m in (policy.model, model)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"learner.reference: its vocabulary has {sizes[1]} entries, the policy's {sizes[0]}; expected the same one"
        )
    model = model.to(policy.device).eval().requires_grad_(False)
    return Reference(TokenScorer(model, policy.temperature, policy.piece_bytes))
