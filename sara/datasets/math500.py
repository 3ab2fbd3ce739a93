"""MATH-500: the 500 problems of MATH's test side that Lightman et al. (2023) evaluate on."""

from __future__ import annotations

from sara.datasets.base import Dataset, HubSource
from sara.datasets.boxed import FIELDS, read_boxed, reference_fault

DATASET = Dataset(
    title="public: MATH-500, 500 problems of MATH's test side",
    fields=FIELDS,
    read=read_boxed,
    hub=HubSource(
        "HuggingFaceH4/MATH-500",
        "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        {"train": "test", "heldout": "test"},
    ),
    fault=reference_fault,
)
