"""What the server says about itself: `/server_info` and the model's card."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ddtree import __version__
from ddtree.config import EngineConfig
from ddtree.server.answer import speculative
from ddtree.server.errors import unavailable
from ddtree.server.service import Service


async def server_info(service: Service) -> dict[str, Any]:
    """Raises ApiError while there is no engine to speak of."""
    if service.loaded is None:
        raise unavailable(service.status)
    engine, stats = service.loaded.engine, await service.loaded.engine.stats()
    return {
        "engine": "ddtree",
        "version": __version__,
        "torch": _torch_version(),
        "device": engine.device,
        "dtype": engine.dtype,
        "argv": list(service.identity.argv),
        "served_model_name": service.identity.served_model_name,
        "model": {"path": engine.config.model, "shape": asdict(engine.shape)},
        "mode": engine.config.mode,
        "budget": engine.config.budget,
        "drafter": engine.config.drafter,
        "tp": engine.config.tp,
        "ep": engine.config.ep,
        "limits": _limits(engine.config),
        "started_at": service.identity.started_at.isoformat(timespec="seconds"),
        "speculation": speculative(stats.speculation),
    }


def model_card(service: Service) -> dict[str, Any]:
    return {
        "id": service.identity.served_model_name,
        "object": "model",
        "created": int(service.identity.started_at.timestamp()),
        "owned_by": "ddtree",
    }


def _limits(config: EngineConfig) -> dict[str, int]:
    return {
        "context_length": config.context_length,
        "max_running_requests": config.max_running_requests,
        "kv_tokens": config.kv_tokens or config.max_running_requests * config.context_length,
        "page_size": config.page_size,
    }


def _torch_version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
