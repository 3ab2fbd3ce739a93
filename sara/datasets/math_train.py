"""MATH (Hendrycks et al. 2021): 7,500 competition problems to train on, 5,000 to test on, with worked solutions."""

from __future__ import annotations

from sara.datasets.base import Dataset, HubSource
from sara.datasets.boxed import FIELDS, read_boxed, reference_fault

DATASET = Dataset(
    title="public: MATH, competition problems in seven subjects and five levels",
    fields=FIELDS,
    read=read_boxed,
    hub=HubSource(
        "DigitalLearningGmbH/MATH-lighteval",
        "0530c78699ea5e8eb5530600900e1f328b48acad",
        {"train": "train", "heldout": "test"},
    ),
    fault=reference_fault,
)
