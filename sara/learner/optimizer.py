"""The optimizer: AdamW with warm-up and schedule, in float32 whatever the model's weights are.

Steps of 1e-6 are lost in bfloat16 weights, whose neighbours lie 0.4% apart. So a model of narrower weights gets
float32 masters: gradients are added up in them over the micro-batches, AdamW moves them, the model is a rounded copy.
Without masters, gradients and AdamW's state may still be in float32: a master then lives for the length of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sara.config import LearnerConfig


@dataclass(frozen=True)
class WeightGroup:
    """Weights that share a learning rate and a gradient norm."""

    name: str
    weights: list[nn.Parameter]
    learning_rate: float


class Optimizer:
    """AdamW over some weights, in place.

    groups        what is trained; the first is the policy
    total_steps   length of the schedule, None if it is constant
    """

    def __init__(self, groups: Sequence[WeightGroup], config: LearnerConfig, total_steps: int | None) -> None:
        self.max_grad_norm = config.max_grad_norm
        self.keeps_masters = config.master_weights
        is_wide = config.master_weights or config.float32_states
        self.groups = [WeightGroup(g.name, [w for w in g.weights if w.requires_grad], g.learning_rate) for g in groups]
        self.masters: list[tuple[nn.Parameter, nn.Parameter]] = []  # (weight of the model, its float32 master)
        self._trained = {g.name: [self._master_of(w) if is_wide else w for w in g.weights] for g in self.groups}
        self.adamw = torch.optim.AdamW(
            [{"params": self._trained[g.name], "lr": g.learning_rate} for g in self.groups],
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
            fused=all(w.device.type in ("cpu", "cuda") for weights in self._trained.values() for w in weights),
        )
        factor = schedule_factor(config, total_steps)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adamw, factor)

    @property
    def learning_rate(self) -> float:
        """Of the policy, now."""
        return self.schedule.get_last_lr()[0]

    def zero_grad(self) -> None:
        self.adamw.zero_grad(set_to_none=True)
        for weight, _ in self.masters:
            weight.grad = None

    def clip(self) -> dict[str, Tensor]:
        """Scale each group's gradient down to the largest norm; the norms before that, by group."""
        return {
            name: torch.nn.utils.clip_grad_norm_(weights, self.max_grad_norm) for name, weights in self._trained.items()
        }

    @torch.no_grad()
    def step(self) -> None:
        for weight, master in () if self.keeps_masters else self.masters:
            master.data = weight.float()
        self.adamw.step()
        for weight, master in self.masters:
            weight.copy_(master)
            if not self.keeps_masters:
                master.data = _without_memory(weight)

    def end_step(self) -> None:
        """Move the learning rate on."""
        self.schedule.step()

    def state_dict(self) -> dict[str, Any]:
        return {
            "optimizer": self.adamw.state_dict(),
            "schedule": self.schedule.state_dict(),
            "masters": [master.detach() for _, master in self.masters] if self.keeps_masters else [],
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adamw.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        for (weight, master), saved in zip(self.masters if self.keeps_masters else [], state["masters"], strict=True):
            master.copy_(saved)
            weight.copy_(master)

    def _master_of(self, weight: nn.Parameter) -> nn.Parameter:
        if weight.dtype.itemsize >= 4:
            return weight
        master = nn.Parameter(weight.detach().float() if self.keeps_masters else _without_memory(weight))
        weight.register_post_accumulate_grad_hook(partial(_hand_over, master=master))
        self.masters.append((weight, master))
        return master


def _without_memory(weight: Tensor) -> Tensor:
    """Float32 zeros of the shape of a weight, all of them the same one in memory."""
    return torch.zeros((), dtype=torch.float32, device=weight.device).expand(weight.shape)


def _hand_over(weight: nn.Parameter, master: nn.Parameter) -> None:
    """Add a weight's fresh gradient to its master's, so that micro-batches add up in float32."""
    if master.grad is None:
        master.grad = weight.grad.float()
    else:
        master.grad += weight.grad
    weight.grad = None


def schedule_factor(config: LearnerConfig, total_steps: int | None) -> Callable[[int], float]:
    """Share of the learning rate at step 0, 1, ...: linear warm-up, then constant, or down to final_rate_share.

    Raises ValueError for a schedule without a length.
    """
    if config.schedule != "constant" and total_steps is None:
        raise ValueError(f"learner.schedule = {config.schedule!r}; expected 'constant' where no number of steps is set")

    def factor(step: int) -> float:
        warm = min(1.0, (step + 1) / (config.warmup_steps + 1))
        if config.schedule == "constant":
            return warm
        done = min(1.0, max(0, step - config.warmup_steps) / max(1, total_steps - config.warmup_steps))
        left = 1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
        return warm * (config.final_rate_share + (1 - config.final_rate_share) * left)

    return factor
