"""A comparison small enough to check by hand: DS and SARA, seeds 0 and 1, two steps."""

from dataclasses import replace

from sara.reporting import Comparison, Series, TrainingRun

BASE = {"eval/accuracy": 0.30, "eval/accuracy_low": 0.27, "eval/accuracy_high": 0.34}


def run(
    strategy: str,
    seed: int,
    rollouts: tuple[float, float],
    tokens: tuple[float, float],
    accuracy: float,
    *,
    groups: tuple[float, float] = (4.0, 2.0),
    share: tuple[float, float] = (1.0, 1.0),
    rounds: tuple[float, float] = (2.0, 4.0),
    half_width: float = 0.03,
) -> TrainingRun:
    """`rollouts` and `tokens` are each step's own; the cumulative series are made from them."""
    steps = (1, 2)

    def summed(xs: tuple[float, float]) -> Series:
        return Series(steps, (xs[0], xs[0] + xs[1]))

    return TrainingRun(
        strategy,
        seed,
        {
            "rollouts/generated": Series(steps, rollouts),
            "rollouts/effective": Series(steps, rollouts),
            "cumulative/rollouts": summed(rollouts),
            "cumulative/tokens": summed(tokens),
            "groups/trained": Series(steps, groups),
            "effective_share": Series(steps, share),
            "rounds": Series(steps, rounds),
            "time/step_s": Series(steps, (30.0, 40.0)),
            "eval/accuracy": Series((2,), (accuracy,)),
            "eval/accuracy_low": Series((2,), (accuracy - half_width,)),
            "eval/accuracy_high": Series((2,), (accuracy + half_width,)),
        },
    )


DS = (
    run("ds", 0, (40, 60), (400, 600), 0.40),
    run("ds", 1, (60, 60), (600, 600), 0.44),
)
SARA = (
    run("sara", 0, (37, 40), (300, 300), 0.41, share=(1.0, 0.5)),
    run("sara", 1, (44, 44), (360, 360), 0.45, rounds=(3.0, 3.0)),
)


def with_metrics(run: TrainingRun, **metrics: tuple[float, ...]) -> TrainingRun:
    """The run with further metrics, `__` for a slash, their values at the last of the two steps or at both."""
    added = {name.replace("__", "/"): Series((1, 2)[-len(xs) :], xs) for name, xs in metrics.items()}
    return replace(run, metrics={**run.metrics, **added})


def with_gain(run: TrainingRun, gain: float, half_width: float) -> TrainingRun:
    ends = {"eval__gain_low": (gain - half_width,), "eval__gain_high": (gain + half_width,)}
    return with_metrics(run, eval__gain=(gain,), **ends)


def comparison(*runs: TrainingRun) -> Comparison:
    return Comparison("worked", runs, BASE)
