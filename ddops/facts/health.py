"""What the service itself answers: alive, ready, and how it is decoding."""

from __future__ import annotations

from typing import Any

import httpx

from ddops.engines.base import Engine
from ddops.spec.observed import Health

TIMEOUT_S = 3.0
FOLLOWS = Health(alive=True, ready=True, status="computes for rank 0")
NOT_RUNNING = Health(alive=False, ready=False, status="not running")


def look(base_url: str, api_key: str | None, engine: Engine) -> Health:
    with client(base_url, api_key) as session:
        try:
            alive = session.get("/health")
            answer = alive if engine.ready == "/health" else session.get(engine.ready)
        except httpx.TransportError as error:
            return Health(alive=False, ready=False, status=_reason(error))
    up, of = _replicas(answer)
    ready = answer.status_code == 200 and up == of
    status = f"{up} of {of} replicas are healthy" if of else _status(answer)
    return Health(alive=alive.status_code == 200, ready=ready, status=status)


def server_info(base_url: str, api_key: str | None, engine: Engine) -> dict[str, Any] | None:
    with client(base_url, api_key) as session:
        try:
            answer = session.get(engine.info)
            said = answer.json() if answer.status_code == 200 else None
        except (httpx.TransportError, ValueError):
            return None
        return said if isinstance(said, dict) else None


def client(base_url: str, api_key: str | None, timeout_s: float = TIMEOUT_S) -> httpx.Client:
    """A proxy of the environment must not stand between us and a service on this machine."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(
        base_url=base_url,
        headers=headers,
        timeout=timeout_s,
        trust_env=False,
        verify=base_url.startswith("https:"),  # certificates cost 30 ms to load, at every poll
    )


def _replicas(answer: httpx.Response) -> tuple[int, int]:
    """Healthy ones and all, as a router tells; 0 of 0 from an engine."""
    try:
        said = answer.json()
        return int(said["healthy_workers"]), int(said["total_workers"])
    except (ValueError, KeyError, TypeError):
        return 0, 0


def _status(answer: httpx.Response) -> str:
    try:
        said = answer.json()
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("status"), str):
        return str(said["status"])
    path = answer.request.url.path
    return "ready" if answer.status_code == 200 else f"{path} answers {answer.status_code}"


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError):
        return "nothing answers"
    return "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
