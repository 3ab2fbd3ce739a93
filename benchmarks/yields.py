"""What SARA brings at DS's and uniform's budget, exactly: the table of docs/allocation.md.

    python benchmarks/yields.py

k = 8, tau_low = 0.5 and a probe of 4 under the uniform prior, in fill mode, without audits.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sara.simulation.exact import ds_costs, fill_costs
from sara.simulation.mixtures import POPULATIONS, RateMixture

K, LOOK = 8, 4  # p_eff is below 1/2 from four equal outcomes on
POOLS = {
    "Beta(0.1, 0.3)": POPULATIONS["saturated"],
    "65% zeros, the rest Beta(1, 2)": POPULATIONS["hard"],
    "50% ones, the rest Beta(2, 1)": POPULATIONS["easy"],
    "uniform": POPULATIONS["uniform"],
    "all exactly 0.2": RateMixture.of([{"rate": 0.2}]),
}


def main() -> None:
    table = Table(title=f"k = {K}: rollouts for an effective group, and effective groups at uniform's budget")
    for head in ("success rates", "c4", "c8", "DS", "SARA", "yield", "false abandonments", "break-even"):
        table.add_column(head, justify="right")
    for name, mixture in POOLS.items():
        whole, sara = ds_costs(mixture, K), fill_costs(mixture, K, LOOK, LOOK)
        false = (whole.effective - sara.effective) / (1 - sara.effective)
        costs = whole.rollouts_per_group, sara.rollouts_per_group
        break_even = (K - LOOK) / K * whole.effective
        cells = [f"{sara.effective:.3f}", f"{whole.effective:.3f}", *(f"{cost:.1f}" for cost in costs)]
        table.add_row(name, *cells, f"{costs[0] / costs[1]:.3f}", f"{false:.1%}", f"{break_even:.1%}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
