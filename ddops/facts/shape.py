"""The shape of a model, and of a drafter, from the `config.json` beside its weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ddops.spec.shape import DrafterShape, Shape, Yarn

_BYTES = 2  # of one value in the cache


def parse(text: bytes | None) -> Shape | None:
    """None without a config, and for one that does not say what the cache looks like."""
    config = _json(text)
    inner: dict[str, Any] = config.get("text_config") or config
    try:
        return Shape(
            family=str(config["model_type"]),
            attention="mla" if inner.get("kv_lora_rank") else "gqa",
            kv_bytes_per_token=_BYTES * int(inner["num_hidden_layers"]) * _values(inner),
            max_context=int(inner["max_position_embeddings"]),
            experts=_experts(inner),
            vocabulary=int(inner.get("vocab_size") or 0),
            copied_bytes=_copied(inner),
            vision="vision_config" in config,
            remote_code="auto_map" in config,
        )
    except (KeyError, TypeError, ValueError):
        return None


def parse_drafter(text: bytes | None) -> DrafterShape | None:
    config = _json(text)
    names = " ".join(map(str, config.get("architectures") or ()))
    if "DFlash" in names:
        own = config.get("dflash_config")
        block = config.get("block_size") or (own.get("block_size") if own else None)
        depth = int(block) - 1 if block else None
        return DrafterShape(
            method="dflash",
            depth=depth,
            yarn=_yarn(config),
            kv_bytes_per_token=_cached(config),
            copied_bytes=_fusion(config, (own or {}).get("target_layer_ids") or ()),
        )
    if "Eagle3" in names:
        return DrafterShape(method="eagle3", yarn=_yarn(config), kv_bytes_per_token=_cached(config))
    return None


def _fusion(config: dict[str, Any], layers: Sequence[int]) -> int:
    """Of the features of so many layers of the target."""
    return int(_BYTES * len(layers) * int(config.get("hidden_size") or 0) ** 2)


def _experts(config: dict[str, Any]) -> int:
    return int(config.get("n_routed_experts") or config.get("num_experts") or 0)


def _copied(config: dict[str, Any]) -> int:
    """The projections down to latents, and the routers. Heads and experts share out the rest."""
    hidden, layers = int(config.get("hidden_size") or 0), int(config["num_hidden_layers"])
    down = 0
    if config.get("kv_lora_rank"):
        query = int(config.get("q_lora_rank") or 0)
        down = query + int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
    sparse = layers - int(config.get("first_k_dense_replace") or 0)
    return _BYTES * hidden * (layers * down + sparse * _experts(config))


def _cached(config: dict[str, Any]) -> int | None:
    try:
        return _BYTES * int(config["num_hidden_layers"]) * _values(config)
    except (KeyError, TypeError, ValueError):
        return None


def _values(config: dict[str, Any]) -> int:
    """Cached values of one token in one layer."""
    if config.get("kv_lora_rank"):
        return int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
    heads = int(config["num_attention_heads"])
    size = int(config.get("head_dim") or config["hidden_size"] // heads)
    return 2 * int(config.get("num_key_value_heads") or heads) * size


def _yarn(config: dict[str, Any]) -> Yarn:
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if "yarn" not in (rope.get("rope_type"), rope.get("type")):
        return "none"
    if "attn_factor" in rope:
        return "attn_factor"
    return "mscale" if {"mscale", "mscale_all_dim"} <= rope.keys() else "plain"


def _json(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
