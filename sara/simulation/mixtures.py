"""Populations as distributions of success rates: mixtures of Beta distributions and point masses.

Owns their exact moments, from which every expected cost follows, and the built-in populations. Never draws rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln

_EMPTY = np.empty(0)


@dataclass(frozen=True)
class RateMixture:
    """A distribution of success rates. All weights together sum to 1.

    beta_weights, alphas, betas  (C,) float64, Beta components; alphas and betas finite and above 0
    point_weights, points        (M,) float64, point masses at rates in [0, 1]
    """

    beta_weights: NDArray[np.float64]
    alphas: NDArray[np.float64]
    betas: NDArray[np.float64]
    point_weights: NDArray[np.float64]
    points: NDArray[np.float64]

    @classmethod
    def beta(cls, alpha: float, beta: float) -> RateMixture:
        """One Beta distribution."""
        return cls.of([{"alpha": alpha, "beta": beta}])

    @classmethod
    def of(cls, components: Sequence[Mapping[str, float]]) -> RateMixture:
        """From components, each `{weight, alpha, beta}` or `{weight, rate}`; weights (1 if left out) are normalised.

        Raises ValueError on anything else.
        """
        if not components:
            raise ValueError("a population without components; expected at least one")
        betas = [component for component in components if set(component) - {"weight"} == {"alpha", "beta"}]
        points = [component for component in components if set(component) - {"weight"} == {"rate"}]
        if len(betas) + len(points) < len(components):
            odd = next(component for component in components if component not in betas and component not in points)
            raise ValueError(f"population component {dict(odd)}; expected weight with alpha and beta, or with rate")
        weights = [np.array([part.get("weight", 1.0) for part in parts], dtype=float) for parts in (betas, points)]
        alphas, shapes = (np.array([part[name] for part in betas], dtype=float) for name in ("alpha", "beta"))
        rates = np.array([part["rate"] for part in points], dtype=float)
        return cls._checked(weights[0], alphas, shapes, weights[1], rates)

    @classmethod
    def from_histogram(cls, rates: ArrayLike, counts: ArrayLike) -> RateMixture:
        """Point masses at `rates` (M,) in [0, 1] with weights in proportion to `counts` (M,), each at least 0."""
        rates, counts = np.asarray(rates, dtype=float).ravel(), np.asarray(counts, dtype=float).ravel()
        if rates.shape != counts.shape:
            raise ValueError(f"{rates.size} rates with {counts.size} counts; expected one count a rate")
        is_there = counts != 0
        return cls._checked(_EMPTY, _EMPTY, _EMPTY, counts[is_there], rates[is_there])

    @classmethod
    def _checked(cls, beta_weights, alphas, betas, point_weights, points) -> RateMixture:
        weights = np.concatenate([beta_weights, point_weights])
        _require(np.isfinite(weights) & (weights >= 0), "weight", weights, "a finite number of at least 0")
        _require((points >= 0) & (points <= 1), "rate", points, "a number in [0, 1]")
        for name, shapes in (("alpha", alphas), ("beta", betas)):
            _require(np.isfinite(shapes) & (shapes > 0), name, shapes, "a finite number above 0")
        total = weights.sum()
        if not (total > 0 and np.isfinite(total)):
            raise ValueError(f"population weights sum to {total}; expected a finite number above 0")
        return cls(beta_weights / total, alphas, betas, point_weights / total, points)

    def components(self) -> list[dict[str, float]]:
        """What `of` would make it from."""
        betas = zip(self.beta_weights.tolist(), self.alphas.tolist(), self.betas.tolist(), strict=True)
        points = zip(self.point_weights.tolist(), self.points.tolist(), strict=True)
        smooth = [{"weight": weight, "alpha": alpha, "beta": beta} for weight, alpha, beta in betas]
        return smooth + [{"weight": weight, "rate": rate} for weight, rate in points]

    def moment(self, successes: ArrayLike, failures: ArrayLike) -> NDArray[np.float64]:
        """E[r^successes (1 - r)^failures]: the chance of that many successes and failures in a given order.

        successes, failures  whole numbers >= 0 that broadcast together
        returns              float64 of their common shape
        """
        a, b = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(failures, dtype=float))
        a, b = a[..., None], b[..., None]  # (..., 1) against components
        smooth = np.exp(betaln(self.alphas + a, self.betas + b) - betaln(self.alphas, self.betas)) @ self.beta_weights
        return smooth + (self.points**a * (1 - self.points) ** b) @ self.point_weights

    @property
    def mean(self) -> float:
        return float(self.moment(1, 0))

    def sample(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Success rates of `count` prompts, independent, (count,) float64."""
        weights = np.concatenate([self.beta_weights, self.point_weights])
        which = rng.choice(weights.size, size=count, p=weights)  # (count,)
        rates = np.concatenate([np.zeros(self.alphas.size), self.points])[which]
        is_smooth = which < self.alphas.size
        rates[is_smooth] = rng.beta(self.alphas[which[is_smooth]], self.betas[which[is_smooth]])
        return rates


def _require(is_right: NDArray[np.bool_], name: str, values: NDArray[np.float64], allowed: str) -> None:
    if not is_right.all():
        raise ValueError(f"population {name} = {values[~is_right][0]:g}; expected {allowed}")


POPULATIONS: dict[str, RateMixture] = {
    "saturated": RateMixture.beta(0.1, 0.3),
    "hard": RateMixture.of([{"weight": 0.65, "rate": 0}, {"weight": 0.35, "alpha": 1, "beta": 2}]),
    "easy": RateMixture.of([{"weight": 0.5, "rate": 1}, {"weight": 0.5, "alpha": 2, "beta": 1}]),
    "uniform": RateMixture.beta(1, 1),
}
"""Built-in populations: most rates near 0 or 1; 65% that never pass; half that always pass; rates all over."""
