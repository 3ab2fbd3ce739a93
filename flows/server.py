"""Whether the Prefect server that this process is pointed at answers; one line that says what to do if not."""

from __future__ import annotations

import urllib.error
import urllib.request

TIMEOUT_S = 5.0


def api_url() -> str | None:
    """The API of the server that the settings name (environment, then Prefect's profile); None without one."""
    from prefect.settings import get_current_settings

    return get_current_settings().api.url


def require_server(who: str) -> str:
    """The API's URL. Raises ValueError if no server is set, or none answers there."""
    url = api_url()
    if url is None:
        raise ValueError(
            f"{who} needs a Prefect server; start one with `sara up` and set PREFECT_API_URL=http://127.0.0.1:4200/api"
        )
    check_server(url)
    return url


def check_server(url: str) -> None:
    """Raises ValueError within seconds if no Prefect server answers at its API's URL."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=TIMEOUT_S) as response:
            is_healthy = response.read().strip() == b"true"
    except urllib.error.HTTPError as error:
        raise ValueError(_refusal(url, f"it answers {error.code}")) from None
    except (OSError, ValueError) as error:
        raise ValueError(_refusal(url, getattr(error, "reason", error))) from None
    if not is_healthy:
        raise ValueError(_refusal(url, "what answers is no Prefect server, or not a healthy one"))


def _refusal(url: str, reason: object) -> str:
    return (
        f"PREFECT_API_URL = {url}: no Prefect server answers there ({reason}); start one with `sara up`, "
        "or unset PREFECT_API_URL to run without"
    )
