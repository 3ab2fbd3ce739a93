"""The learner: turns scored rollouts into weight updates.

Owns the optimizer, the forward pass over rollouts and the policy-gradient update. Trains on the
token ids that the engine returned; masks come from lengths, never from the pad id.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.advantages import get_estimator
from sara.config import LearnerConfig
from sara.learner.adapters import add_adapters, full_weights
from sara.learner.examples import Batch, TrainingExample, make_batch, split_by_group
from sara.learner.forward import TokenScorer, TokenScores, recompute_layers
from sara.learner.micro_batches import MicroBatch, after_prompts, as_rows, end_to_end, split_by_tokens
from sara.learner.objective import Objective, TokenBatch
from sara.learner.optimizer import Optimizer, WeightGroup
from sara.learner.reference import make_reference
from sara.learner.shared_prompts import SharedPrompts, can_share, sharing_pays
from sara.learner.value import VALUE_FUNCTIONS, ValueModel

_SUMS_OF_A_BATCH = (
    "loss",
    "loss/kl",
    "loss/entropy",
    "loss/value",
)  # weighted already; the other figures are means over tokens


class TrainingDiverged(ValueError):
    """Several updates in a row were not finite; the weights are those of the last one that was."""


class Learner:
    """AdamW on the clipped policy-gradient loss, over parts of each step's groups.

    model             the policy, updated in place
    temperature       the sampling temperature; log-probabilities are taken under it
    total_steps       steps of the run, for a schedule
    max_new_tokens    longest response, for constant-length aggregation
    reference_model   what the KL is measured to; None: the policy as it is now
    corrects_gap      weight tokens by importance where engine and learner disagree (`tis_cap`)

    Raises ValueError for settings that this model cannot be trained with.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: LearnerConfig,
        temperature: float,
        *,
        total_steps: int | None = None,
        max_new_tokens: int | None = None,
        reference_model: PreTrainedModel | None = None,
        corrects_gap: bool = False,
    ) -> None:
        self.model = model.eval()  # no dropout: the policy that is trained is the one that was sampled from
        self.config = config
        self.max_new_tokens = max_new_tokens
        self.objective = Objective(config, config.tis_cap if corrects_gap else None)
        self.scorer = TokenScorer(model, temperature, config.logits_mib * 2**20)
        is_recomputed, needs_values = config.gradient_checkpointing, get_estimator(config.advantage).needs_values
        self.value = VALUE_FUNCTIONS[config.value](model, is_recomputed) if needs_values else None
        if config.lora_rank:
            add_adapters(model, config.lora_rank, config.lora_alpha, config.lora_targets)
        self.reference = make_reference(self.scorer, reference_model) if config.kl_coef else None
        if is_recomputed:
            recompute_layers(model)
        self.optimizer = Optimizer(self._weight_groups(), config, total_steps)
        self.is_packed = config.layout == "packed" or (config.layout == "auto" and self.scorer.is_block_sparse)
        reads_whole_rows = self.is_packed or is_recomputed or isinstance(self.value, ValueModel)
        self.shares_prompts = config.share_prompts and not reads_whole_rows and can_share(model)
        self.bad_updates_in_a_row = 0

    def measure(self, examples: Sequence[TrainingExample]) -> dict[str, list[np.ndarray]]:
        """What advantages may need besides rewards, for each example (n,) float64: `values` and `reference_logprobs`.

        Each only where the algorithm needs it.
        """
        found: dict[str, list[np.ndarray]] = {}
        if self.value is not None:
            found["values"] = self._of_each(examples, lambda batch: self.value(batch, self.scorer.hidden(batch)))
        if self.reference is not None:
            found["reference_logprobs"] = self._of_each(examples, self.reference.logprobs)
            if self.config.kl_in == "reward":
                found["old_logprobs"] = self._of_each(examples, lambda batch: self.scorer(batch).logprobs)
        return found

    def update(self, examples: Sequence[TrainingExample], rng: np.random.Generator) -> dict[str, float]:
        """Make `updates_per_step` updates an epoch, each over a part of the groups; returns the means of their metrics.

        A part without a gradient (no effective group) is skipped and counted, or momentum and weight decay would move
        the weights. So is an update whose loss or gradient is not finite; it leaves everything as it was. Raises
        TrainingDiverged after `max_bad_updates` of these in a row.
        """
        config = self.config
        epochs = [list(self._batches(examples, rng)) for _ in range(config.epochs)]
        batches = [batch for epoch in epochs for batch in epoch if batch.indices]
        rate = self.optimizer.learning_rate
        # Of the first update the ratio is 1 by construction; what later ones train on is scored before it.
        old = self._logprobs_before(examples, batches[1:] if config.epochs == 1 else epochs[0])
        updates = [self._update_once(examples, batch, old) for batch in batches]
        good = [update for update in updates if update is not None]
        if good:
            self.optimizer.end_step()
        counts = {
            "updates": float(len(good)),
            "skipped_updates": float(config.epochs * config.updates_per_step - len(batches)),
            "bad_updates": float(len(batches) - len(good)),
            "lr": rate,
        }
        return _over_updates(good) | counts

    def full_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The policy's weights under their plain names, adapters added in."""
        return full_weights(self.model)

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, schedule and value function; the policy's weights are the model's own."""
        value = {} if self.value is None else self.value.state_dict()
        return self.optimizer.state_dict() | {"value": value, "bad_updates_in_a_row": self.bad_updates_in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)
        if self.value is not None:
            self.value.load_state_dict(state["value"])
        self.bad_updates_in_a_row = int(state["bad_updates_in_a_row"])

    def _weight_groups(self) -> list[WeightGroup]:
        groups = [WeightGroup("policy", list(self.model.parameters()), self.config.learning_rate)]
        if self.value is not None:
            groups.append(WeightGroup("value", list(self.value.parameters()), self.config.value_learning_rate))
        return groups

    def _batches(self, examples: Sequence[TrainingExample], rng: np.random.Generator) -> Iterator[Batch]:
        config = self.config
        is_all_computed = self.value is not None or self.objective.is_more_than_policy
        for part in split_by_group(examples, config.updates_per_step, rng):
            yield make_batch(
                examples, part, config.loss_mean, self.max_new_tokens, config.equal_groups, is_all_computed
            )

    def _shared_prompts(self, examples: Sequence[TrainingExample], indices: Sequence[int]) -> SharedPrompts | None:
        """The prompts of an update's rollouts, read once; None where that saves too little."""
        if not self.shares_prompts:
            return None
        prompts = [examples[i].rollout.prompt_ids for i in indices]
        response_tokens = sum(examples[i].response_tokens for i in indices)
        if not sharing_pays(prompts, response_tokens, self.config.micro_batch_tokens):
            return None
        return SharedPrompts(self.model, list(dict.fromkeys(prompts)))

    def _micro_batches(
        self, examples: Sequence[TrainingExample], indices: Sequence[int], shared: SharedPrompts | None = None
    ) -> Iterator[tuple[list[int], MicroBatch]]:
        """Places in `indices` and tensors of each micro-batch."""
        lengths = [examples[i].total_tokens for i in indices]
        device = self.scorer.device
        layout = end_to_end if self.is_packed else as_rows
        for part in split_by_tokens(lengths, self.config.micro_batch_tokens, self.is_packed):
            rows = [examples[indices[row]] for row in part]
            yield part, layout(rows, device) if shared is None else after_prompts(rows, shared, device)

    @torch.no_grad()
    def _of_each(self, examples: Sequence[TrainingExample], score) -> list[np.ndarray]:
        """Scores of the trained tokens of each example (n,) float64."""
        found = [np.zeros(0)] * len(examples)
        indices = [i for i, example in enumerate(examples) if example.trained_tokens]
        for part, batch in self._micro_batches(examples, indices):
            lengths = [examples[indices[row]].trained_tokens for row in part]
            for row, piece in zip(part, score(batch).double().cpu().split(lengths), strict=True):
                found[indices[row]] = piece.numpy()
        return found

    @torch.no_grad()
    def _logprobs_before(self, examples: Sequence[TrainingExample], batches: Sequence[Batch]) -> dict[int, Tensor]:
        """Log-probabilities of each of their rollouts under the present weights, each (n,)."""
        old: dict[int, Tensor] = {}
        for batch in batches:
            shared = self._shared_prompts(examples, batch.indices)
            for part, micro in self._micro_batches(examples, batch.indices, shared):
                indices = [batch.indices[row] for row in part]
                pieces = self.scorer(micro).logprobs.split([examples[i].trained_tokens for i in indices])
                old |= dict(zip(indices, pieces, strict=True))
        return old

    def _update_once(
        self, examples: Sequence[TrainingExample], batch: Batch, old: dict[int, Tensor]
    ) -> dict[str, float] | None:
        """One optimizer step; None, and nothing has changed, if loss or gradient is not finite."""
        sums: dict[str, float] = {}
        maxima: dict[str, float] = {}
        self.optimizer.zero_grad()
        shared = self._shared_prompts(examples, batch.indices)
        for part, micro in self._micro_batches(examples, batch.indices, shared):
            rows = [batch.indices[row] for row in part]
            tokens = self._token_batch(
                [examples[i] for i in rows], batch.weights[part], micro, [old.get(i) for i in rows]
            )
            loss, part_sums, part_maxima = self.objective(tokens)
            loss.backward()
            sums = {name: sums.get(name, 0.0) + value for name, value in _floats(part_sums).items()}
            maxima = {name: max(maxima.get(name, 0.0), value) for name, value in _floats(part_maxima).items()}
        if shared is not None:
            shared.backward()
        norms = _floats(self.optimizer.clip())
        if not np.isfinite([*norms.values(), *(sums[name] for name in _SUMS_OF_A_BATCH if name in sums)]).all():
            self.optimizer.zero_grad()
            return self._refuse(batch)
        self.optimizer.step()
        self.bad_updates_in_a_row = 0
        count = sum(examples[i].trained_tokens for i in batch.indices)
        means = {name: value if name in _SUMS_OF_A_BATCH else value / count for name, value in sums.items()}
        value_norm = {"value/grad_norm": norms["value"]} if "value" in norms else {}
        return means | maxima | value_norm | {"grad_norm": norms["policy"], "tokens/updated": float(count)}

    def _token_batch(
        self,
        examples: Sequence[TrainingExample],
        weights: np.ndarray,
        micro: MicroBatch,
        old: Sequence[Tensor | None],
    ) -> TokenBatch:
        scores: TokenScores = self.scorer(micro)
        like = scores.logprobs.detach()
        lengths = [example.trained_tokens for example in examples]

        def tensor(arrays: Sequence[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(arrays)).to(like)

        def optional(name: str) -> Tensor | None:
            return None if getattr(examples[0], name) is None else tensor([getattr(e, name) for e in examples])

        return TokenBatch(
            policy_logprobs=scores.logprobs,
            entropy=scores.entropy,
            old_logprobs=like if any(piece is None for piece in old) else torch.cat(list(old)),
            behavior_logprobs=tensor([e.rollout.completion.behavior_logprobs[e.trained_positions] for e in examples]),
            advantages=tensor([e.token_advantages for e in examples]),
            weights=tensor([np.repeat(weights, lengths)]),
            reference_logprobs=optional("reference_logprobs") if self.objective.kl_coef else None,
            values=None if self.value is None else self.value(micro, scores.hidden).to(like.dtype),
            old_values=optional("values"),
            returns=optional("returns"),
        )

    def _refuse(self, batch: Batch) -> None:
        self.bad_updates_in_a_row += 1
        named = ", ".join(map(str, batch.prompts[:8])) + (", ..." if len(batch.prompts) > 8 else "")
        message = f"an update over prompts {named} was left out: its loss or gradient is not finite"
        if self.bad_updates_in_a_row >= self.config.max_bad_updates:
            raise TrainingDiverged(
                f"{message}; that is {self.bad_updates_in_a_row} in a row (learner.max_bad_updates): "
                "training ends with the weights of the last good update"
            )
        warnings.warn(message, UserWarning, stacklevel=4)


def _floats(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The same as numbers, fetched from the device at once."""
    return dict(zip(tensors, torch.stack([t.double() for t in tensors.values()]).tolist(), strict=True))


def _over_updates(updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over a step's updates; of maxima the largest, of counts the sum."""
    how = {"ratio_max": np.max, "mismatch/ratio_max": np.max, "tokens/updated": np.sum}
    names = updates[0] if updates else ()
    return {name: float(how.get(name, np.mean)([update[name] for update in updates])) for name in names}
