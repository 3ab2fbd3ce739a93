"""Recommending: the cheapest setting that loses few enough effective groups, and why.

Owns that choice and its sentence, and the sentences on what a replay cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sara.replay.drive import Driven
from sara.replay.grouplog import GroupLog
from sara.replay.results import GridResult, SettingResult, cost_of
from sara.replay.sums import Interval

AUTO = "sara, auto"  # the driven strategy that learns its stopping points
AUTO_OPTIONS = ("tau_low", "probe", "increment")
_WORTH_SAYING = 0.02  # one order of one log tells no smaller difference
CANNOT_TELL = (
    "How training would have gone on: other batches make another policy, and this log holds one history only.",
    "What further prompts would have given: the cost of an effective group takes the prompts that SARA would open "
    "in the place of abandoned ones to be like those in the log.",
)


@dataclass(frozen=True)
class Recommendation:
    """`chosen` is None where DS is to be kept; `reason` is one or two sentences."""

    chosen: SettingResult | None
    reason: str


def recommend(grid: GridResult, unit: str | None, max_lost: float, max_rounds: float) -> Recommendation:
    """The cheapest setting of the largest k that loses at most `max_lost` of DS's effective groups.

    unit        what lengths are in. Tokens decide where the log has them, else rollouts do: characters are no cost.
    max_lost    cap on the share of effective groups lost, in [0, 1]
    max_rounds  cap on the mean rounds of a step

    Only one k is looked at, since another group size is another training method, not a cheaper one.
    """
    k = grid.baselines[0].k
    by_length = unit == "tokens"
    of_k = [result for result in grid.settings if result.setting.k == k]
    allowed = [result for result in of_k if result.lost.value <= max_lost and result.rounds <= max_rounds]
    best = min(allowed, key=lambda result: (cost_of(result, by_length=by_length), result.rounds), default=None)
    caps = f"lose at most {max_lost:.0%} of the effective groups in {max_rounds:g} rounds a step or fewer"
    measure = "tokens" if by_length else "rollouts"
    if best is None or cost_of(best, by_length=by_length) >= 1 - 1e-9:
        return Recommendation(None, f"Keep DS at k = {k}: no setting that would {caps} needs fewer {measure} than DS.")
    cost = best.length_cost if by_length else best.cost
    reason = (
        f"Of the settings that {caps}, it needs the fewest {measure} for an effective group: {_percent(cost)} of DS's. "
        f"It loses {_percent(best.lost)} of them and takes {best.rounds:.1f} rounds a step."
    )
    if cost.high is not None and cost.high >= 1:
        reason += " The interval reaches 100%: this log is too small to tell it from DS."
    return Recommendation(best, reason)


def about_auto(as_logged: Mapping[str, Driven], unit: str | None, max_lost: float) -> str | None:
    """A sentence on learned stopping points where they were the cheapest within the cap, in the order of the log."""
    driven, ds = as_logged.get(AUTO), as_logged.get("ds")
    if driven is None or ds is None or not ds.effective:
        return None
    cheapest = min(other.cost(unit) for name, other in as_logged.items() if name != AUTO)
    if driven.lost > max_lost or driven.cost(unit) > (1 - _WORTH_SAYING) * cheapest:
        return None
    overrides = " ".join(f"allocation.{name}=auto" for name in AUTO_OPTIONS)
    measure = "tokens" if unit == "tokens" else "rollouts"
    return (
        f"Cheaper still in the order of this log: {overrides}, which learns its stopping points as it goes. It took "
        f"{driven.cost(unit) / ds.cost(unit):.1%} of DS's {measure} for an effective group and lost {driven.lost:.1%} "
        "of them."
    )


def warnings(log: GroupLog, grid: GridResult) -> list[str]:
    """What about this log makes its figures doubtful."""
    base, found = grid.baselines[0], spanning(log)
    if base.effective_share.value > 0.99 and base.groups >= 20:
        found.append(
            "Hardly any group is saturated. A log that is written after groups were filtered (dynamic sampling, DAPO) "
            "no longer holds what SARA saves; log before the filter."
        )
    short = log.num_groups - base.groups
    if short > 0.05 * log.num_groups:
        found.append(
            f"{short} of {log.num_groups} groups have fewer than {base.k} rollouts and are left out. If your trainer "
            "stops groups early, those that are left are not a fair picture."
        )
    if log.num_prompts < 100:
        found.append(f"The log is small ({log.num_prompts} different prompts): the intervals are rough.")
    return found


def spanning(log: GroupLog) -> list[str]:
    """The warning that says first of all what the figures may be of: two runs taken for one."""
    if not log.num_spanning:
        return []
    return [
        f"{log.num_spanning} of {log.num_groups} groups have rollouts in several files, as the shards of a run have. "
        "Replay one run at a time: the same step and prompt in two runs would be taken for one group."
    ]


def notes(log: GroupLog) -> list[str]:
    """What of the log was left out, and how it was read."""
    skipped, sizes = log.skipped, log.sizes
    counted = [
        (skipped.broken_lines, f"broken lines, the first in {skipped.first_broken}"),
        (skipped.empty_files, "empty files"),
        (skipped.without_prompt, "rollouts without a prompt"),
        (skipped.without_step, "rollouts without a step"),
        (skipped.without_reward, "rollouts without a reward (null or NaN)"),
        (skipped.groups_of_one, "groups of one rollout"),
        (int((sizes < log.k).sum()), f"groups of fewer than {log.k} rollouts, at k = {log.k}"),
    ]
    lines = [f"left out: {count:,} {what}" for count, what in counted if count]
    if skipped.files_without_steps:
        lines.append(f"no step column in {skipped.files_without_steps:,} of the files: each is taken for one step")
    longer = int((sizes > log.k).sum())
    if longer:
        lines.append(f"{longer:,} groups have more than {log.k} rollouts: averages are over all of them")
    if skipped.without_length:
        lines.append(f"{skipped.without_length:,} rollouts have no length: lengths are not reported")
    if log.unit == "characters":
        lines.append("no column of token counts: lengths are characters of the completions")
    return lines


def _percent(interval: Interval) -> str:
    text = f"{interval.value:.1%}"
    return text if interval.low is None else f"{text} ({interval.low:.1%} to {interval.high:.1%})"
