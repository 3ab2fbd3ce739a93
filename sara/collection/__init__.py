"""The collection loop: select, allocate, draw, judge, until a step has its groups.

Training, simulation and replay run it; only what draws differs. One file for each schedule, and `SCHEDULES`.
"""

from sara.collection.report import Collection, StepOutcome
from sara.collection.rounds import RolloutSource, StepCollection, collect

__all__ = ["Collection", "RolloutSource", "StepCollection", "StepOutcome", "collect"]
