"""Whether the Hugging Face hub can be reached, asked once and quickly."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import Request, urlopen


def is_hub_reachable(timeout_s: float = 5.0) -> bool:
    """Whether the hub answers at all. Loading from one that does not would try again and again, for half a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=timeout_s).close()
    except HTTPError:
        return True  # an answer, if not a friendly one
    except OSError:
        return False
    return True
