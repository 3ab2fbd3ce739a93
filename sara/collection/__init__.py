"""The collection loop: select, allocate, draw, judge, until a step has its groups.

Training, simulation and replay run it; only what draws differs. One file for each schedule: in rounds, with one
decision for each batch of draws, or in a stream, with one whenever a rollout ends.
"""

from sara.collection.report import Collection, StepOutcome
from sara.collection.rounds import RolloutSource, StepCollection, collect
from sara.collection.stream import StreamCollection, StreamSource, collect_streaming

SCHEDULES = {"rounds": collect, "stream": collect_streaming}

__all__ = [
    "SCHEDULES",
    "Collection",
    "RolloutSource",
    "StepCollection",
    "StepOutcome",
    "StreamCollection",
    "StreamSource",
    "collect",
    "collect_streaming",
]
