"""What a comparison shows, in plain sentences made from its numbers, and what qualifies them."""

from collections.abc import Sequence

from sara.reporting import formats
from sara.reporting.comparison import Comparison, bare_strategy, label, reference_of
from sara.reporting.estimates import Estimate, seed_spread
from sara.reporting.summary import REFERENCE, Row, summary_table

SAME_WITHIN = 0.005  # totals closer than half a percent are called the same


def findings(comparison: Comparison) -> list[str]:
    """One sentence on cost for each SARA strategy, one on its accuracy, then whose gain is clear; never empty."""
    rows = {row.strategy: row for row in summary_table(comparison)}
    gains = _gains(list(rows.values()))
    references = {name: rows.get(reference_of(name)) for name in rows}
    if not any(references.values()):
        return _without_reference(list(rows.values())) + gains
    ours = [row for name, row in rows.items() if bare_strategy(name) in ("sara", "sara+dps")]
    if not ours:
        return ["No SARA run in this comparison: the table compares the baselines only.", *gains]
    subjects = [(row, references[row.strategy]) for row in ours if references[row.strategy]]
    costs = [_cost(row, reference) for row, reference in subjects]
    scores = [_score(row, reference) for row, reference in subjects]
    said = [s for s in costs + scores if s] or ["No strategy has finished a step that DS finished too."]
    return said + gains


def notes(comparison: Comparison) -> list[str]:
    """The table's caption: how to read it, and what is missing or uneven in this comparison."""
    rows = [row for row in summary_table(comparison) if row.strategy != "base"]
    said = [
        _on_k(comparison),
        _on_seeds(comparison),
        _on_gain(rows),
        _on_reference(comparison, rows),
        *_on_unevenness(comparison, rows),
    ]
    return [sentence for sentence in said if sentence]


def _cost(row: Row, reference: Row) -> str:
    if None in (row.groups, row.rollouts_pct, reference.groups) or not (row.groups and reference.groups):
        return ""
    share = row.groups / reference.groups
    if abs(share - 1) <= SAME_WITHIN:
        rollouts, tokens = row.rollouts_pct, row.tokens_pct
        return f"{row.label} trained the same number of groups as DS with {_less(rollouts, tokens)}."
    rollouts = row.rollouts_pct / share
    tokens = None if row.tokens_pct is None else row.tokens_pct / share
    amount = f"{abs(share - 1):.0%} {'fewer' if share < 1 else 'more'} groups than DS"
    return f"{row.label} trained {amount}; for each group trained it took {_less(rollouts, tokens)}."


def _less(rollouts_pct: float, tokens_pct: float | None) -> str:
    parts = [f"{_change(rollouts_pct)} rollouts"]
    if tokens_pct is not None:
        parts.append(f"{_change(tokens_pct)} tokens")
    return " and ".join(parts)


def _change(percent: float) -> str:
    change = round(percent - 100)
    return "the same number of" if change == 0 else f"{abs(change)}% {'more' if change > 0 else 'fewer'}"


def _score(row: Row, reference: Row) -> str:
    if row.accuracy is None or reference.accuracy is None:
        return ""
    points = round(100 * (row.accuracy.value - reference.accuracy.value), 1)
    if points == 0:
        return f"{row.label} and DS end at the same held-out accuracy, {row.accuracy.value:.1%}."
    side = "above" if points > 0 else "below"
    sentence = f"{row.label} ends at {row.accuracy.value:.1%} held-out accuracy, {abs(points)} points {side} DS"
    overlap = _overlap(row.accuracy, reference.accuracy)
    return sentence + ("" if overlap is None else _INTERVALS[overlap]) + "." + _paired(row.over_ds)


def _paired(over_ds: Estimate | None) -> str:
    if over_ds is None:
        return ""
    value, low, high = (100 * x for x in (over_ds.value, over_ds.low, over_ds.high))
    return f" Paired by seed, on these prompts: {value:+.1f} points (95% interval {low:+.1f} to {high:+.1f})."


_INTERVALS = {
    True: "; the two 95% intervals overlap, so this comparison does not tell them apart",
    False: "; the two 95% intervals do not overlap",
}


def _overlap(a: Estimate, b: Estimate) -> bool | None:
    if None in (a.low, a.high, b.low, b.high):
        return None
    return a.low <= b.high and b.low <= a.high


def _gains(rows: Sequence[Row]) -> list[str]:
    """Which strategies are told apart from the base model by the paired interval of their gain, in one string."""
    known = [row for row in rows if row.gain is not None and None not in (row.gain.low, row.gain.high)]
    above = [row for row in known if row.gain.low > 0]
    below = [row for row in known if row.gain.high < 0]
    unclear = [row for row in known if row not in above and row not in below]
    said = [
        _on_gains(above, "gained clearly on the base model", "lies above 0", "lie above 0"),
        _on_gains(unclear, "cannot be told apart from the base model", "holds 0", "hold 0"),
        _on_gains(below, "fell clearly below the base model", "lies below 0", "lie below 0"),
    ]
    return [" ".join(sentence for sentence in said if sentence)] if known else []


def _on_gains(rows: Sequence[Row], verdict: str, one: str, many: str) -> str:
    if not rows:
        return ""
    unit = " points"
    names = [f"{row.label} ({formats.points(row.gain)}{unit if row is rows[0] else ''})" for row in rows]
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    intervals = f"its paired 95% interval {one}" if len(names) == 1 else f"their paired 95% intervals {many}"
    return f"{listed} {verdict}: {intervals}."


def _without_reference(rows: Sequence[Row]) -> list[str]:
    missing = "DS is not part of this comparison, so it states no savings."
    scored = [row for row in rows if row.accuracy and row.strategy != "base"]
    if not scored:
        return [missing]
    if all(row.groups == 0 for row in scored):
        return ["No group was trained on: every score is that of the model as it was.", missing]
    best = max(scored, key=lambda row: row.accuracy.value)
    as_good = [row for row in scored if row.accuracy.value == best.accuracy.value]
    if len(as_good) > 1:
        who = "All strategies" if len(as_good) == len(scored) else " and ".join(row.label for row in as_good)
        what = "end at the same" if len(as_good) == len(scored) else "have the same highest"
        return [f"{who} {what} held-out accuracy, {best.accuracy.value:.1%}.", missing]
    lead = "ends at" if len(scored) == 1 else "has the highest held-out accuracy,"
    tail = " held-out accuracy" if len(scored) == 1 else ""
    if best.gain is not None:
        points = round(100 * best.gain.value, 1)
        tail += f", {abs(points)} points {'above' if points >= 0 else 'below'} the base model"
    return [f"{best.label} {lead} {best.accuracy.value:.1%}{tail}.", missing]


def _on_k(comparison: Comparison) -> str:
    k = comparison.params.get("evaluation.k")
    return f"avg@k and pass@k: k = {k}." if k else ""


def _on_seeds(comparison: Comparison) -> str:
    most = max((len(comparison.of(s)) for s in comparison.strategies()), default=0)
    if most <= 1:
        return "One seed for each strategy: intervals are 95% bootstrap intervals over held-out prompts only."
    freedom = seed_spread(comparison, "eval/accuracy").freedom
    return (
        "Means over seeds. The 95% intervals join two uncertainties in quadrature: held-out prompts "
        "(bootstrap) and seeds (their spread pooled over strategies, Student's t with "
        f"{freedom} degree{'s' if freedom != 1 else ''} of freedom)."
    )


def _on_gain(rows: Sequence[Row]) -> str:
    if not any(row.gain and row.gain.low is not None for row in rows):
        return ""
    return "Gain: over the base model, paired by held-out prompt, hence its narrower interval."


def _on_reference(comparison: Comparison, rows: Sequence[Row]) -> str:
    if REFERENCE not in {bare_strategy(name) for name in comparison.strategies()}:
        return "The % of DS columns are empty: DS is not part of this comparison."
    if all(row.rollouts_pct is None for row in rows):
        return "The % of DS columns are empty: DS has logged no finished step."
    return ""


def _on_unevenness(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    said = []
    if comparison.status != "FINISHED":
        ended = {"KILLED": "was stopped", "FAILED": "failed"}.get(comparison.status, "has not ended, or was killed")
        said.append(f"The comparison {ended}: strategies and seeds may be missing.")
    unfinished = [run for run in comparison.runs if run.status != "FINISHED"]
    if unfinished:
        names = ", ".join(f"{label(r.strategy)} seed {r.seed} ({r.status.lower()})" for r in unfinished)
        said.append(f"Not finished, shown as far as they went: {names}.")
    if len({row.steps for row in rows}) > 1:
        said.append("Strategies took different numbers of steps: totals compare what each spent, as run.")
    seeds = {tuple(run.seed for run in comparison.of(s)) for s in comparison.strategies()}
    if len(seeds) > 1:
        said.append("Strategies were run with different seeds.")
    return said
