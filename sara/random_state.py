"""The random generators that libraries share: what they are at, and setting them to it.

Nothing in this project draws from them (see `sara.seeds`); what a model or a library draws goes on as it would have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """States of Python's, numpy's and torch's global generators, those of the GPUs included."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 - the global one is what it is about
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set the generators to a `random_state`; GPUs that this machine lacks are left out."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    for device, of_device in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(of_device, device)
