"""A plan for readers: the table, what it says in sentences, its figure and its files."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sara.planning.config import PlanConfig
from sara.planning.pilot import refit_rates
from sara.planning.predict import Prediction, num_prompts
from sara.planning.reading import Pool
from sara.planning.recommend import WORTHWHILE, Advice
from sara.reporting import formats
from sara.reporting.figures import DPI, WIDTH_IN
from sara.reporting.style import LIGHT as SCHEME
from sara.reporting.style import dress
from sara.seeds import step_rng
from sara.simulation.exact import ds_costs
from sara.strategies import STRATEGIES

PLAIN_WIDTH = 140
_REFITS = 200
_COLUMNS = (
    "strategy",
    "rollouts\na step",
    "tokens\na step",
    "rounds",
    "effective\ngroups",
    "rollouts\na group",
    "tokens,\n% of DS",
    "GPU hours\nof the run",
    "by",
)


@dataclass(frozen=True)
class Plan:
    """What a plan rests on and what it found."""

    config: PlanConfig
    pool: Pool
    advice: Advice | None
    predictions: list[Prediction]

    @property
    def best(self) -> Prediction | None:
        """The cheapest in tokens for each effective group among strategies that train on full batches of them."""
        full = [row for row in self.predictions if STRATEGIES[row.strategy].allocator != "fixed" and row.groups]
        return min(full, key=lambda row: row.tokens_per_group, default=None)


def render_text(plan: Plan, *, terminal_width: int | None = None) -> str:
    """The table; the cheapest strategy in bold in a terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for title in _COLUMNS:
        is_name = title == _COLUMNS[0]
        table.add_column(Text(title), justify="left" if is_name else "right", no_wrap=True, vertical="bottom")
    for row in plan.predictions:
        table.add_row(*map(Text, _cells(row)), style="bold" if row is plan.best else None)
    out = io.StringIO()
    width = terminal_width or PLAIN_WIDTH
    Console(file=out, width=width, force_terminal=terminal_width is not None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render_markdown(plan: Plan) -> str:
    lines = [
        "| " + " | ".join(title.replace("\n", " ") for title in _COLUMNS) + " |",
        "|:---|" + "---:|" * (len(_COLUMNS) - 1),
    ]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in plan.predictions]
    return "\n".join(lines) + "\n"


def sentences(plan: Plan) -> list[str]:
    """What the prompts are like, the settings and the strategy to take and why, and what the plan does not know."""
    return [*_about_pool(plan), *_about_settings(plan), *_about_strategy(plan), *_caveats(plan)]


def as_json(plan: Plan) -> dict[str, Any]:
    return {
        "config": plan.config.model_dump(mode="json"),
        "prompts": num_prompts(plan.config, plan.pool),
        "origin": plan.pool.origin,
        "advice": asdict(plan.advice) if plan.advice else None,
        "strategy": plan.best.strategy if plan.best else None,
        "predictions": [row.as_json() for row in plan.predictions],
        "sentences": sentences(plan),
    }


def write_plan(folder: Path, plan: Plan) -> list[Path]:
    """`plan.json`, `plan.md` and `plan.png`, into an existing folder; returns their paths."""
    numbers, table, picture = folder / "plan.json", folder / "plan.md", folder / "plan.png"
    numbers.write_text(json.dumps(as_json(plan), indent=2) + "\n", encoding="utf-8")
    table.write_text(render_markdown(plan) + "\n" + "\n".join(sentences(plan)) + "\n", encoding="utf-8")
    draw(plan).savefig(picture)
    return [numbers, table, picture]


def draw(plan: Plan) -> Figure:
    """GPU hours of the run, and rounds a step, one bar a row."""
    figure = Figure(figsize=(WIDTH_IN, 1.2 + 0.3 * len(plan.predictions)), dpi=DPI, layout="constrained")
    figure.set_facecolor(SCHEME.paper)
    panels = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    places = np.arange(len(plan.predictions))[::-1]
    colours = [SCHEME.strategy(row.strategy) for row in plan.predictions]
    columns = (
        ([row.gpu_hours for row in plan.predictions], "GPU hours of the run"),
        ([row.rounds for row in plan.predictions], "rounds a step"),
    )
    for axes, (values, title) in zip(panels, columns, strict=True):
        dress(axes, SCHEME)
        axes.grid(visible=False)
        axes.bar_label(axes.barh(places, values, color=colours, height=0.62), fmt="%.3g", padding=3, fontsize=8)
        axes.set_xlabel(title)
        axes.margins(x=0.12)
    panels[0].set_yticks(places, [_name(row) for row in plan.predictions])
    return figure


def _name(row: Prediction) -> str:
    return row.strategy + (", advised" if row.is_advised else "")


def _cells(row: Prediction) -> list[str]:
    error = f" ±{row.rollouts_error:.0f}" if row.rollouts_error else ""
    return [
        _name(row),
        f"{row.rollouts:.0f}{error}",
        formats.count(row.tokens),
        formats.rounds(row.rounds),
        f"{row.groups:.1f}",
        formats.NOTHING if row.rollouts_per_group is None else f"{row.rollouts_per_group:.1f}",
        formats.NOTHING if row.tokens_vs_ds is None else f"{100 * row.tokens_vs_ds:.0f}",
        formats.count(row.gpu_hours) if row.gpu_hours >= 100 else f"{row.gpu_hours:.3g}",
        row.method,
    ]


def _about_pool(plan: Plan) -> list[str]:
    k, mixture = plan.config.allocation.k, plan.pool.mixture
    effective = float(ds_costs(mixture, k).effective)
    said = (
        f"{plan.pool.origin}: mean success rate {float(mixture.mean):.2f}; of {k} rollouts {_percent(effective)} of "
        f"the groups are mixed, {_percent(float(mixture.moment(0, k)))} all wrong, "
        f"{_percent(float(mixture.moment(k, 0)))} all right"
    )
    lines = [said]
    if plan.pool.pilot is not None:
        rng = step_rng(plan.config.simulated.first_seed, 0, "plan: bootstrap of the pilot")
        fits = [float(ds_costs(fit, k).effective) for fit in refit_rates(plan.pool.pilot, _REFITS, rng)]
        low, high = np.percentile(fits, [2.5, 97.5])
        lines.append(f"the pilot puts the share of mixed groups at {_percent(low)} to {_percent(high)} (95% interval)")
    if plan.pool.left_out:
        lines.append(f"{plan.pool.left_out} prompts without a rollout left out")
    return lines


def _about_settings(plan: Plan) -> list[str]:
    advice = plan.advice
    if advice is None:
        return ["no group is ever mixed: no strategy can train on these prompts"]
    lines = [f"settings: tau_low={advice.tau_low} probe={advice.probe} increment={advice.increment}; {advice.reason}"]
    lines.append(
        f"of the groups that would be mixed, {_percent(advice.lost)} are lost (at most "
        f"{_percent(plan.config.allocation.max_false_abandon)} allowed); what is trained on passes "
        f"{_percent(advice.trained_rate)} of the time, with ds {_percent(advice.ds_rate)}"
    )
    return lines


def _about_strategy(plan: Plan) -> list[str]:
    best = plan.best
    if best is None:
        return []
    ds = 1 if best.tokens_vs_ds is None else best.tokens_vs_ds
    said = f"strategy: {_name(best)}, {_percent(ds)} of DS's tokens for each effective group"
    if best.strategy == "ds" or 1 - ds < WORTHWHILE:
        said = "strategy: ds; nothing else costs at least 2% less for each effective group"
    if "dps" in best.strategy:
        without = [row for row in plan.predictions if row.strategy == best.strategy.removesuffix("+dps")]
        cheapest = min((row.tokens_vs_ds for row in without if row.tokens_vs_ds is not None), default=None)
        alone = f" (without it {_percent(cheapest)})" if cheapest is not None else ""
        said += f"; its part that predicts{alone} counts on success rates that move slowly"
    return [said]


def _caveats(plan: Plan) -> list[str]:
    lines = [
        "success rates are taken to stay as they are: as the policy learns, groups grow mixed or all right, and a "
        "pilot of a later checkpoint is worth another plan"
    ]
    if any(row.method == "simulated" for row in plan.predictions):
        steps = min(plan.config.simulated.steps, plan.config.steps)
        lines.append(
            f"simulated figures are of the first {steps} steps on {num_prompts(plan.config, plan.pool):,} prompts; dps "
            "predicts better when it has seen more of them"
        )
    pilot, k = plan.pool.pilot, plan.config.allocation.k
    if pilot is not None and k > pilot.n.max():
        lines.append(
            f"k = {k} is more than the {pilot.n.max()} rollouts of the pilot's prompts: what happens beyond them is a "
            "guess that the interval does not cover"
        )
    if plan.pool.pilot is None and "histogram" in plan.pool.origin:
        lines.append(
            "rates of a histogram are taken as true: 0 of 8 is not a rate of 0; a pilot log says how many of how many"
        )
    lines.append("GPU hours are of generation alone, at the given speed; each round also waits for its longest rollout")
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"
