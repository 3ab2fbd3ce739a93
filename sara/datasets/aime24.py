"""AIME 2024: the 30 problems of the two American Invitational Mathematics Examinations, answers in 0..999."""

from __future__ import annotations

from sara.datasets.base import Dataset, HubSource
from sara.datasets.boxed import FIELDS, read_boxed, reference_fault

DATASET = Dataset(
    title="public: AIME 2024, 30 competition problems with whole answers",
    fields=FIELDS,
    read=read_boxed,
    hub=HubSource(
        "HuggingFaceH4/aime_2024",
        "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        {"train": "train", "heldout": "train"},
    ),
    fault=reference_fault,
)
