"""What the service itself answers: alive, ready, and how it is decoding."""

from __future__ import annotations

import json
from typing import Any

from ddops.engines.base import Engine
from ddops.host.reply import Reply, Service, Unanswered
from ddops.spec.observed import Health

FOLLOWS = Health(alive=True, ready=True, status="computes for rank 0")
NOT_RUNNING = Health(alive=False, ready=False, status="not running")


def look(base_url: str, api_key: str | None, engine: Engine) -> Health:
    service = Service(base_url, api_key)
    try:
        alive = service.get("/health")
        answer = alive if engine.ready == "/health" else service.get(engine.ready)
    except Unanswered as why:
        return Health(alive=False, ready=False, status=str(why))
    up, of = _replicas(answer)
    ready = answer.status == 200 and up == of
    status = f"{up} of {of} replicas are healthy" if of else _status(answer, engine.ready)
    return Health(alive=alive.status == 200, ready=ready, status=status)


def server_info(base_url: str, api_key: str | None, engine: Engine) -> dict[str, Any] | None:
    try:
        answer = Service(base_url, api_key).get(engine.info)
        said = json.loads(answer.text) if answer.status == 200 else None
    except (Unanswered, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _replicas(answer: Reply) -> tuple[int, int]:
    """Healthy ones and all, as a router tells; 0 of 0 from an engine."""
    try:
        said = json.loads(answer.text)
        return int(said["healthy_workers"]), int(said["total_workers"])
    except (ValueError, KeyError, TypeError):
        return 0, 0


def _status(answer: Reply, path: str) -> str:
    try:
        said = json.loads(answer.text)
    except ValueError:
        said = None
    if isinstance(said, dict) and isinstance(said.get("status"), str):
        return str(said["status"])
    return "ready" if answer.status == 200 else f"{path} answers {answer.status}"
