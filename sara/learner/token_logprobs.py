"""Log-probabilities and entropies of tokens from hidden states, without the logits of all of them at once.

A vocabulary of 150,000 and 8,192 tokens are 4.6 GiB of float32 logits, several times over with what a loss keeps of
them. Here a piece of the tokens is taken through the output layer at a time and its logits are thrown away; the
backward pass makes them again. Where all fit in one piece they are kept, and nothing is computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class OutputLayer:
    """From hidden states (T, H) to logits (T, V): cap * tanh(scale * (h W + b) / cap) / temperature.

    weight        (V, H), trained or not
    bias          (V,) or None
    scale         factor on the logits (Cohere, Granite)
    cap           soft cap of the scaled logits (Gemma 2); None: no cap
    temperature   the sampling temperature
    """

    weight: Tensor
    bias: Tensor | None
    scale: float
    cap: float | None
    temperature: float

    def logits(self, hidden: Tensor) -> Tensor:
        """(T, V) float32, or float64 for a float64 model; its own memory, to be overwritten at will."""
        logits = torch.nn.functional.linear(hidden, self.weight, self.bias)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.cap is not None:
            return torch.tanh(logits * (self.scale / self.cap)) * (self.cap / self.temperature)
        factor = self.scale / self.temperature
        return logits if factor == 1.0 else logits.mul_(factor)  # in place: a copy is as large as the piece


def token_logprobs(hidden: Tensor, targets: Tensor, layer: OutputLayer, piece_bytes: int) -> tuple[Tensor, Tensor]:
    """Log-probability of each target and entropy of each distribution, both (T,), both with gradient.

    hidden        (T, H), last hidden states
    targets       (T,) int64
    piece_bytes   largest piece of logits that is held
    """
    width = 8 if hidden.dtype == torch.float64 else 4
    tokens = max(1, piece_bytes // (width * len(layer.weight)))
    if len(targets) <= tokens:
        return _whole(hidden, targets, layer)
    return _InPieces.apply(hidden, layer.weight, layer.bias, targets, layer, tokens)


def _whole(hidden: Tensor, targets: Tensor, layer: OutputLayer) -> tuple[Tensor, Tensor]:
    distribution = torch.log_softmax(layer.logits(hidden), dim=-1)  # (T, V)
    entropy = _Entropy.apply(distribution)
    return distribution.gather(1, targets[:, None])[:, 0], entropy


class _Entropy(torch.autograd.Function):
    """-sum p log p of log-probabilities (T, V); keeps nothing but what log_softmax keeps anyway."""

    @staticmethod
    def forward(ctx, distribution: Tensor) -> Tensor:
        ctx.save_for_backward(distribution)
        ctx.set_materialize_grads(False)
        return -torch.linalg.vecdot(distribution.exp(), distribution)

    @staticmethod
    def backward(ctx, grad: Tensor | None):
        if grad is None:
            return None
        (distribution,) = ctx.saved_tensors
        return -(distribution + 1) * distribution.exp() * grad[:, None]


class _InPieces(torch.autograd.Function):
    """The same, a piece of the tokens at a time, with the logits of a piece made again in the backward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, layer: OutputLayer, tokens: int):
        pieces = [_piece(layer.logits(h), t) for h, t in zip(hidden.split(tokens), targets.split(tokens), strict=True)]
        logprobs, entropy, log_total = (torch.cat(column) for column in zip(*pieces, strict=True))
        ctx.save_for_backward(hidden, weight, bias, targets, entropy, log_total)
        ctx.layer, ctx.tokens = layer, tokens
        ctx.set_materialize_grads(False)
        return logprobs, entropy

    @staticmethod
    def backward(ctx, grad_logprobs: Tensor | None, grad_entropy: Tensor | None):
        hidden, weight, bias, targets, entropy, log_total = ctx.saved_tensors
        if grad_logprobs is None and grad_entropy is None:
            return (None,) * 6
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight) if needs_weight else None
        grad_bias = torch.zeros_like(bias) if needs_bias else None
        for start in range(0, len(targets), ctx.tokens):
            rows = slice(start, start + ctx.tokens)
            grads = [None if grad is None else grad[rows] for grad in (grad_logprobs, grad_entropy)]
            by_logits = _piece_gradient(
                ctx.layer, hidden[rows], targets[rows], entropy[rows], log_total[rows], *grads
            ).to(hidden.dtype)
            if needs_hidden:
                torch.mm(by_logits, weight, out=grad_hidden[rows])
            if needs_weight:
                grad_weight.addmm_(by_logits.T, hidden[rows])
            if needs_bias:
                grad_bias += by_logits.sum(dim=0)
            del by_logits  # or it would live on while the next piece is made
        return grad_hidden, grad_weight, grad_bias, None, None, None


def _piece(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, entropies and log of the sum of exponentials, each (T,); overwrites the logits (T, V)."""
    at_target = logits.gather(1, targets[:, None])[:, 0]
    largest = logits.max(dim=-1).values
    chances = logits.sub_(largest[:, None]).exp()
    total = chances.sum(dim=-1)
    log_total = total.log()
    dots = torch.bmm(chances[:, None, :], logits[:, :, None])[:, 0, 0]  # without a product as large as the piece
    entropy = log_total - dots / total
    log_total = log_total + largest
    return at_target - log_total, entropy, log_total


def _piece_gradient(
    layer: OutputLayer,
    hidden: Tensor,
    targets: Tensor,
    entropy: Tensor,
    log_total: Tensor,
    grad_logprobs: Tensor | None,
    grad_entropy: Tensor | None,
) -> Tensor:
    """Gradient by h W + b, (T, V).

    By the logits z, with p their softmax: d log p_y / dz = 1[y] - p and d H / dz = -p (log p + H).
    """
    logits = layer.logits(hidden)
    slope = layer.scale / layer.temperature  # of a logit by h W + b
    if layer.cap is not None:
        slope = slope * (1 - (logits * (layer.temperature / layer.cap)) ** 2)
    log_chances = logits.sub_(log_total[:, None])
    grad = log_chances.exp()  # (T, V), p
    if grad_entropy is not None:
        factor = log_chances.add_(entropy[:, None]).mul_(grad_entropy[:, None])
        if grad_logprobs is not None:
            factor.add_(grad_logprobs[:, None])
        grad.mul_(factor.neg_())
    else:
        grad.mul_(-grad_logprobs[:, None])
    if grad_logprobs is not None:
        grad.scatter_add_(1, targets[:, None], grad_logprobs[:, None])
    return grad.mul_(slope)
