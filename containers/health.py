"""Health check of every container of compose.yaml: SARA_HEALTH is a URL that must answer, or `worker`.

A worker is healthy while the server has heard from it: Prefect's server says which of a pool's workers are online.
"""

import json
import os
import sys
import urllib.request

TIMEOUT_S = 4


def main() -> int:
    target = os.environ.get("SARA_HEALTH", "")
    if not target:
        return 0
    try:
        is_healthy = _is_worker_online() if target == "worker" else _answers(target)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if is_healthy else 1


def _answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        return response.status == 200


def _is_worker_online() -> bool:
    pool = os.environ["SARA_WORK_POOL"]
    request = urllib.request.Request(
        f"{os.environ['PREFECT_API_URL']}/work_pools/{pool}/workers/filter",
        data=b"{}",
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        workers = json.load(response)
    return any(w["name"] == os.environ["SARA_WORKER"] and w["status"] == "ONLINE" for w in workers)


if __name__ == "__main__":
    sys.exit(main())
