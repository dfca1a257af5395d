"""How much of a GPU weights, cache and everything else take, in GiB. Arithmetic, not measured.

The reserve is SGLang's own estimate (0.5.23, memory_hook.py), and what a draft tree adds to it.
docs/rules.md has the formulas.
"""

from __future__ import annotations

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment
from ddops.spec.shape import Shape

GIB = 2**30
_LARGE = 60.0  # GiB of a GPU from which at least `_LEAST` is kept free
_LEAST = 10.0
_PREFILL = ((160.0, 16384), (60.0, 8192), (20.0, 4096), (0.0, 2048))
"""Prompt tokens a step by GiB of a GPU, where the inventory names none."""


class Need(Word):
    weights: float | None
    cache: float | None
    reserve: float | None


def need(
    deployment: Deployment, shape: Shape | None, *, size: int | None, gpu: float | None, use: int
) -> Need:
    """`size`: bytes of target and drafter; `gpu`: GiB of one GPU. None: not known."""
    if gpu is None or use < 1:
        return Need(weights=None, cache=None, reserve=None)
    return Need(
        weights=size / use / GIB if size else None,
        cache=_cache(deployment, shape, use) if shape else None,
        reserve=_reserve(deployment, shape, gpu, use),
    )


def _cache(deployment: Deployment, shape: Shape, use: int) -> float:
    """Of `kv_tokens`, else of one request at full length. Latent keys are the same on every GPU."""
    tokens = deployment.limits.kv_tokens or deployment.limits.context_length
    shared = 1 if shape.attention == "mla" else use
    return tokens * shape.kv_bytes_per_token / shared / GIB


def _reserve(deployment: Deployment, shape: Shape | None, gpu: float, use: int) -> float:
    limits = deployment.limits
    chunk = limits.prefill_chunk or next(tokens for least, tokens in _PREFILL if gpu >= least)
    mib = 512 + 1.5 * max(chunk, 2048) + 1024 * use / 8
    if deployment.graphs != "off":
        mib += 2 * limits.max_running_requests
        mib += 1536 if shape and shape.attention == "mla" else 0
    return max(mib / 1024, _LEAST if gpu > _LARGE else 0.0)
