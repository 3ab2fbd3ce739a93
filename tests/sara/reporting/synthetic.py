"""A realistic comparison made of plain arithmetic and a seeded generator: no training needed."""

import numpy as np

from sara.reporting import Comparison, Series, TrainingRun

GROUPS, K, STEPS, EVAL_EVERY = 16, 8, 20, 5
BASE = {
    "eval/accuracy": 0.312,
    "eval/accuracy_low": 0.284,
    "eval/accuracy_high": 0.341,
    "eval/pass_at_k": 0.521,
    "eval/pass_at_k_low": 0.47,
    "eval/pass_at_k_high": 0.569,
}
# opened groups a step that end effective, abandoned (after 4 draws), saturated, surplus
_SHAPES = {
    "uniform": (5, 0, 11, 0),
    "ds": (16, 0, 44, 4),
    "dps": (11, 0, 5, 0),
    "sara": (16, 28, 9, 1),
    "sara+dps": (16, 6, 3, 0),
}
# of the effective groups, how many are hard and medium; the rest is easy
_LEVELS = {"uniform": (2, 2), "ds": (7, 6), "dps": (3, 6), "sara": (5, 7), "sara+dps": (5, 7)}
_GAINS = {"uniform": 0.055, "ds": 0.112, "dps": 0.09, "sara": 0.109, "sara+dps": 0.118}


def training_metrics(strategy: str, seed: int) -> dict[str, dict[int, float]]:
    """Metric -> step -> value, under the names that training logs."""
    rng = np.random.default_rng([seed, *strategy.encode()])
    logged: dict[str, dict[int, float]] = {}
    rollouts, tokens = 0.0, 0.0
    for step in range(1, STEPS + 1):
        now = _step(strategy, step, rng)
        rollouts, tokens = rollouts + now["rollouts/generated"], tokens + now["tokens/generated"]
        now |= {"cumulative/rollouts": rollouts, "cumulative/tokens": tokens}
        if step % EVAL_EVERY == 0:
            now |= _evaluation(strategy, step, rng)
        for name, value in now.items():
            logged.setdefault(name, {})[step] = float(value)
    return logged


def _step(strategy: str, step: int, rng: np.random.Generator) -> dict[str, float]:
    effective, abandoned, saturated, surplus = _SHAPES[strategy]
    jitter = rng.integers(-2, 3, size=2) if saturated + abandoned > 5 else np.zeros(2, int)
    if strategy in ("uniform", "dps"):
        effective, saturated = effective + jitter[0], saturated - jitter[0]
    else:
        abandoned, saturated = max(abandoned + 2 * jitter[0], 0) if abandoned else 0, saturated + jitter[1]
    spent = {
        "effective": effective * K,
        "abandoned": abandoned * 4,
        "saturated": saturated * K,
        "surplus": surplus * K,
        "unfinished": 0,
        "missing": int(strategy == "ds" and step == 7),
    }
    long = {
        "effective": 310,
        "abandoned": 520,
        "saturated": 430,
        "surplus": 310,
        "unfinished": 0,
        "missing": 0,
    }
    return {
        **{f"rollouts/{fate}": n for fate, n in spent.items()},
        **{f"tokens/{fate}": n * long[fate] for fate, n in spent.items()},
        "rollouts/generated": sum(spent.values()),
        "tokens/generated": sum(n * long[fate] for fate, n in spent.items()),
        "groups/trained": GROUPS,
        "effective_share": effective / GROUPS,
        **_levels(strategy, effective),
        "rounds": {"uniform": 1, "dps": 1, "ds": 4}.get(strategy, 3),
        "loss": rng.normal(0, 0.01) if step != 11 else float("nan"),
        "grad_norm": rng.gamma(2, 0.2),
        "time/step_s": sum(spent.values()) * 0.05 + 4,
    }


def _levels(strategy: str, effective: int) -> dict[str, float]:
    """A third of the saturated groups passes."""
    hard, medium = _LEVELS[strategy]
    easy, failed = effective - hard - medium, 2 * (GROUPS - effective) // 3
    passed = GROUPS - effective - failed
    return {
        "trained/hard": hard + failed,
        "trained/medium": medium,
        "trained/easy": easy + passed,
        "trained/all_fail": failed,
        "trained/all_pass": passed,
        "gradient_signal": 0.12 * hard + 0.24 * medium + 0.11 * easy,
    }


def _evaluation(strategy: str, step: int, rng: np.random.Generator) -> dict[str, float]:
    grown = _GAINS[strategy] * (1 - np.exp(-step / 7)) / (1 - np.exp(-STEPS / 7))
    accuracy = BASE["eval/accuracy"] + grown + rng.normal(0, 0.006)
    passed = BASE["eval/pass_at_k"] + 0.7 * grown + rng.normal(0, 0.008)
    return {
        "eval/accuracy": accuracy,
        "eval/accuracy_low": accuracy - 0.022,
        "eval/accuracy_high": accuracy + 0.021,
        "eval/pass_at_k": passed,
        "eval/pass_at_k_low": passed - 0.04,
        "eval/pass_at_k_high": passed + 0.04,
        "eval/tokens_mean": 350.0,
    } | (_gain(accuracy) if step == STEPS else {})


def _gain(accuracy: float) -> dict[str, float]:
    gain = accuracy - BASE["eval/accuracy"]
    return {"eval/gain": gain, "eval/gain_low": gain - 0.014, "eval/gain_high": gain + 0.015}


PARAMS = {
    "model.name": "builtin",
    "dataset.name": "countdown",
    "training.steps": "20",
    "training.groups_per_step": "16",
    "training.group_size": "8",
    "allocator.tau_low": "0.5",
    "allocator.probe": "4",
    "optimizer.lr": "1e-06",
    "evaluation.k": "8",
}


def comparison(strategies: tuple[str, ...] = tuple(_SHAPES), seeds: tuple[int, ...] = (0, 1)) -> Comparison:
    runs = tuple(
        TrainingRun(
            strategy,
            seed,
            {name: Series.from_points(xs.items()) for name, xs in training_metrics(strategy, seed).items()},
            name=f"{strategy} seed {seed}",
        )
        for strategy in strategies
        for seed in seeds
    )
    return Comparison("demo", runs, BASE, PARAMS, "r-1", "countdown", "2026-11-29 18:00 UTC")
