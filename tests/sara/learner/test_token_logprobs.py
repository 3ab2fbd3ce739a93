"""Log-probabilities in pieces are those of the whole, and so are their gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sara.learner.token_logprobs import OutputLayer, token_logprobs

T, H, V = 7, 5, 11
LAYERS = {
    "plain": {},
    "bias": {"has_bias": True},
    "scaled": {"scale": 0.3},
    "capped": {"cap": 1.5},
    "all": {"has_bias": True, "scale": 0.7, "cap": 2.0},
}


def make_layer(has_bias: bool = False, scale: float = 1.0, cap: float | None = None, temperature: float = 0.8):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(V, H, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(V, generator=generator, dtype=torch.float64, requires_grad=True) if has_bias else None
    return OutputLayer(weight, bias, scale, cap, temperature)


def make_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(T, H, generator=generator, dtype=torch.float64, requires_grad=True)
    return hidden, torch.randint(0, V, (T,), generator=generator)


def slow(hidden: torch.Tensor, targets: torch.Tensor, layer: OutputLayer) -> tuple[list[float], list[float]]:
    """One token and one word at a time, with exactly summed exponentials."""
    logprobs, entropies = [], []
    for row, target in zip(hidden.tolist(), targets.tolist(), strict=True):
        logits = []
        for word, weights in enumerate(layer.weight.tolist()):
            z = math.fsum(a * b for a, b in zip(row, weights, strict=True))
            z = (z + (0.0 if layer.bias is None else layer.bias[word].item())) * layer.scale
            logits.append((z if layer.cap is None else layer.cap * math.tanh(z / layer.cap)) / layer.temperature)
        total = math.log(math.fsum(math.exp(z) for z in logits))
        logprobs.append(logits[target] - total)
        entropies.append(-math.fsum(math.exp(z - total) * (z - total) for z in logits))
    return logprobs, entropies


@pytest.mark.parametrize("tokens_a_piece", [1, 3, 100])
@pytest.mark.parametrize("settings", LAYERS.values(), ids=LAYERS)
def test_values_agree_with_a_slow_loop(settings, tokens_a_piece):
    layer, (hidden, targets) = make_layer(**settings), make_tokens()
    logprobs, entropy = token_logprobs(hidden, targets, layer, tokens_a_piece * 8 * V)
    expected = slow(hidden, targets, layer)
    assert logprobs.tolist() == pytest.approx(expected[0], abs=1e-10)
    assert entropy.tolist() == pytest.approx(expected[1], abs=1e-10)


@pytest.mark.parametrize("tokens_a_piece", [1, 3, 100])
@pytest.mark.parametrize("settings", LAYERS.values(), ids=LAYERS)
def test_gradients_are_finite_differences(settings, tokens_a_piece):
    layer, (hidden, targets) = make_layer(**settings), make_tokens()
    inputs = [hidden, layer.weight] + ([layer.bias] if layer.bias is not None else [])

    def scores(hidden, weight, bias=None):
        changed = OutputLayer(weight, bias, layer.scale, layer.cap, layer.temperature)
        return token_logprobs(hidden, targets, changed, tokens_a_piece * 8 * V)

    assert torch.autograd.gradcheck(scores, inputs)


@pytest.mark.parametrize("used", [(1, 0), (0, 1), (1, 1)])
def test_pieces_and_the_whole_have_the_same_gradient_whichever_of_the_two_is_used(used):
    found = []
    for tokens_a_piece in (2, 100):
        layer, (hidden, targets) = make_layer(cap=3.0), make_tokens()
        logprobs, entropy = token_logprobs(hidden, targets, layer, tokens_a_piece * 8 * V)
        coefficients = torch.linspace(-1, 2, T, dtype=torch.float64)
        loss = sum(
            (coefficients * part).sum() for part, is_used in zip((logprobs, entropy), used, strict=True) if is_used
        )
        loss.backward()
        found.append((hidden.grad, layer.weight.grad))
    assert found[0][0].abs().max() > 0.1
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, atol=1e-12, rtol=1e-12)


def test_frozen_weights_get_no_gradient_and_the_hidden_states_still_do():
    layer, (hidden, targets) = make_layer(), make_tokens()
    layer.weight.requires_grad_(False)
    logprobs, _ = token_logprobs(hidden, targets, layer, 2 * 8 * V)
    logprobs.sum().backward()
    assert layer.weight.grad is None and hidden.grad.abs().max() > 0.1


def test_log_probabilities_far_below_zero_stay_finite():
    layer = OutputLayer(torch.eye(3, requires_grad=True), None, 1.0, None, 1.0)
    hidden = torch.tensor([[1e4, 0.0, -1e4], [-1e4, 0.0, 1e4]], requires_grad=True)
    for piece_bytes in (12, 1000):
        logprobs, entropy = token_logprobs(hidden, torch.tensor([2, 2]), layer, piece_bytes)
        assert logprobs.tolist() == [-2e4, 0.0] and entropy.tolist() == [0.0, 0.0]
        (gradient,) = torch.autograd.grad(logprobs.sum() + entropy.sum(), hidden)
        assert gradient.isfinite().all()


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that any operation gave back."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.numel())
        return found


def test_the_logits_of_all_tokens_never_exist_at_once():
    tokens, words = 512, 4000
    weight, hidden = torch.randn(words, 4, requires_grad=True), torch.randn(tokens, 4, requires_grad=True)
    layer, targets = OutputLayer(weight, None, 1.0, None, 1.0), torch.randint(0, words, (tokens,))
    largest = {}
    for piece in (16, tokens):
        with LargestTensor() as seen:
            logprobs, entropy = token_logprobs(hidden, targets, layer, piece * 4 * words)
            (logprobs.sum() + entropy.sum()).backward()
        largest[piece] = seen.elements
    assert largest == {16: 16 * words, tokens: tokens * words}  # and the measure does see them where they exist
