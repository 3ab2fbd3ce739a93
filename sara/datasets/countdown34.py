"""The public Countdown problems of three or four numbers in 1..99 with targets in 10..100 (TinyZero).

The hub has one split: each problem's side is that of `sara.datasets.countdown`, so that both sides stay apart
from each other and from generated problems too.
"""

from __future__ import annotations

from sara.datasets.base import Dataset, HubSource, Problem, Split
from sara.datasets.countdown import FIELDS, Countdown, read_countdown


def _is_of_side(problem: Problem, split: Split) -> bool:
    return Countdown(tuple(problem.reference["numbers"]), problem.reference["target"]).split == split


DATASET = Dataset(
    title="public: Countdown-Tasks-3to4, three or four numbers in 1..99, targets in 10..100",
    fields=FIELDS,
    read=read_countdown,
    hub=HubSource(
        "Jiayi-Pan/Countdown-Tasks-3to4",
        "408f70d177020686d34a56bba5952feb45aaaee4",
        {"train": "train", "heldout": "train"},
    ),
    is_of_side=_is_of_side,
)
