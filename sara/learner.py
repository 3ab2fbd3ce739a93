"""The learner: turns scored rollouts into weight updates.

Owns the optimizer, the forward pass over rollouts and the policy-gradient update. Trains on the
token ids that the engine returned; masks come from lengths, never from the pad id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sara.config import LearnerConfig
from sara.losses import Clipping, clipped_policy_loss, kl_k3
from sara.rollouts import Rollout

_PAD = 0  # any id: what it stands for is masked by length


@dataclass(frozen=True)
class TrainingExample:
    """One rollout with its advantage."""

    rollout: Rollout
    advantage: float

    @property
    def response_tokens(self) -> int:
        return len(self.rollout.completion.token_ids)

    @property
    def total_tokens(self) -> int:
        return len(self.rollout.prompt_ids) + self.response_tokens


@dataclass(frozen=True)
class Batch:
    """The rollouts of one optimizer update.

    examples      those whose advantage is not 0; the others have no gradient and are not computed
    token_count   response tokens of all of them, which the loss is a mean over
    """

    examples: list[TrainingExample]
    token_count: int

    @classmethod
    def of(cls, examples: Sequence[TrainingExample]) -> Batch:
        """A batch of all these rollouts."""
        return cls([e for e in examples if e.advantage], sum(e.response_tokens for e in examples))


class Learner:
    """AdamW on the clipped policy-gradient loss, token-mean over each optimizer batch.

    model         the policy, updated in place
    temperature   the sampling temperature; log-probabilities are taken under it
    """

    def __init__(self, model: PreTrainedModel, config: LearnerConfig, temperature: float):
        self.model = model
        self.config = config
        self.temperature = temperature
        self.clipping = Clipping(config.clip_low, config.clip_high, config.dual_clip)
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._warmup)

    def update(self, examples: Sequence[TrainingExample], rng: np.random.Generator) -> dict[str, float]:
        """Make `updates_per_step` updates, each over a part of the groups; returns the means of their metrics.

        A part without an effective group has no gradient: its update is skipped and counted, or momentum and
        weight decay would move the weights. Raises RuntimeError, before the weights change, for a gradient that is
        not finite.
        """
        parts = _split_by_group(examples, self.config.updates_per_step, rng)
        effective = [part for part in parts if any(examples[i].advantage for i in part)]
        counts = {
            "updates": float(len(effective)),
            "skipped_updates": float(self.config.updates_per_step - len(effective)),
            "lr": self.schedule.get_last_lr()[0],
        }
        if not effective:
            return counts
        self.model.eval()  # no dropout: the policy that is trained is the one that was sampled from
        batches = [Batch.of([examples[i] for i in part]) for part in effective]
        old_logprobs = [self._logprobs_before(batch) for batch in batches[1:]]  # of the first one the ratio is 1
        updates = [self._update_once(batch, old) for batch, old in zip(batches, [None, *old_logprobs], strict=True)]
        self.schedule.step()
        return {name: float(np.mean([update[name] for update in updates])) for name in updates[0]} | counts

    def state_dict(self) -> dict:
        """Optimizer and schedule; the weights are the model's own."""
        return {"optimizer": self.optimizer.state_dict(), "schedule": self.schedule.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])

    def _warmup(self, step: int) -> float:
        return min(1.0, (step + 1) / (self.config.warmup_steps + 1))

    @torch.no_grad()
    def _logprobs_before(self, batch: Batch) -> list[Tensor]:
        """Log-probabilities of each of its rollouts under the present weights, each (T,)."""
        old: list[Tensor] = [torch.empty(0)] * len(batch.examples)
        for part in _micro_batches(batch.examples, self.config.micro_batch_tokens):
            logprobs, _ = self._policy_logprobs([batch.examples[i] for i in part])
            lengths = [batch.examples[i].response_tokens for i in part]
            for i, piece in zip(part, logprobs.split(lengths), strict=True):
                old[i] = piece
        return old

    def _update_once(self, batch: Batch, old: list[Tensor] | None) -> dict[str, float]:
        sums = dict.fromkeys(("loss", "clip_fraction", "entropy", "kl_behavior"), 0.0)
        self.optimizer.zero_grad(set_to_none=True)
        for part in _micro_batches(batch.examples, self.config.micro_batch_tokens):
            part_old = None if old is None else torch.cat([old[i] for i in part])
            part_sums = self._accumulate([batch.examples[i] for i in part], part_old, batch.token_count)
            sums = {name: sums[name] + part_sums[name] for name in sums}
        grad_norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), self.config.max_grad_norm, error_if_nonfinite=True
        )
        self.optimizer.step()
        computed = sum(example.response_tokens for example in batch.examples)
        means = {name: value / computed for name, value in sums.items()}
        return means | {"loss": sums["loss"] / batch.token_count, "grad_norm": float(grad_norm)}

    def _accumulate(self, examples: list[TrainingExample], old: Tensor | None, token_count: int) -> dict[str, float]:
        """Add a micro-batch's gradient; returns sums over its tokens. `old` (T,) is None where the ratio is 1."""
        policy_logprobs, entropy = self._policy_logprobs(examples)  # (T,), (T,)
        lengths = torch.tensor([example.response_tokens for example in examples])
        advantages = torch.tensor([example.advantage for example in examples], dtype=torch.float32)
        advantages = advantages.repeat_interleave(lengths).to(policy_logprobs.device)  # (T,)
        behavior = np.concatenate([example.rollout.completion.behavior_logprobs for example in examples])
        behavior_logprobs = torch.from_numpy(behavior).to(policy_logprobs.device)  # (T,)
        old_logprobs = policy_logprobs.detach() if old is None else old
        losses, is_clipped = clipped_policy_loss(policy_logprobs, old_logprobs, advantages, self.clipping)
        (losses.sum() / token_count).backward()
        return {
            "loss": float(losses.detach().sum()),
            "clip_fraction": float(is_clipped.sum()),
            "entropy": float(entropy.sum()),
            "kl_behavior": float(kl_k3(behavior_logprobs, old_logprobs).sum()),
        }

    def _policy_logprobs(self, examples: Sequence[TrainingExample]) -> tuple[Tensor, Tensor]:
        """Log-probability and (without gradient) entropy of each response token, both (T,), rollout after rollout."""
        input_ids, mask, is_response = _right_pad(examples, self.model.device)  # (N, L) each
        logits = self.model(input_ids=input_ids, attention_mask=mask, use_cache=False).logits  # (N, L, V)
        predicted = is_response[:, 1:]  # position t predicts token t + 1
        log_distribution = torch.log_softmax(logits[:, :-1][predicted].float() / self.temperature, dim=-1)  # (T, V)
        targets = input_ids[:, 1:][predicted]
        with torch.no_grad():
            entropy = -(log_distribution.exp() * log_distribution).sum(dim=-1)
        return log_distribution.gather(1, targets[:, None])[:, 0], entropy


def _right_pad(examples: Sequence[TrainingExample], device) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, attention mask and response mask of prompt + response, each (N, L)."""
    length = max(example.total_tokens for example in examples)
    input_ids = torch.full((len(examples), length), _PAD, dtype=torch.int64)
    mask = torch.zeros((len(examples), length), dtype=torch.int64)
    is_response = torch.zeros((len(examples), length), dtype=torch.bool)
    for row, example in enumerate(examples):
        ids = [*example.rollout.prompt_ids, *example.rollout.completion.token_ids.tolist()]
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
        is_response[row, len(example.rollout.prompt_ids) : len(ids)] = True
    return input_ids.to(device), mask.to(device), is_response.to(device)


def _micro_batches(examples: Sequence[TrainingExample], max_tokens: int) -> Iterator[list[int]]:
    """Indices of examples of like length whose padded size stays within max_tokens (one example at least)."""
    by_length = sorted(range(len(examples)), key=lambda i: (examples[i].total_tokens, i))
    part: list[int] = []
    for i in by_length:
        if part and (len(part) + 1) * examples[i].total_tokens > max_tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def _split_by_group(examples: Sequence[TrainingExample], parts: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Indices of the examples of each part; groups stay whole and are dealt in a seeded order."""
    prompts = np.array([example.rollout.prompt for example in examples])
    for groups in np.array_split(rng.permutation(np.unique(prompts)), parts):
        indices = np.flatnonzero(np.isin(prompts, groups)).tolist()
        if indices:
            yield indices
