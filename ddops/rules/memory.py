"""How much of a GPU weights, cache and everything else take, in GiB. Arithmetic, not measured.

SGLang's and vLLM's reserve is SGLang's own estimate (0.5.23, memory_hook.py), and what a draft tree
adds to it. docs/rules.md has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddops.spec.base import Word
from ddops.spec.deployment import Deployment
from ddops.spec.shape import DrafterShape, Shape
from ddops.spec.situation import Situation

GIB = 2**30
_LARGE = 60.0  # GiB of a GPU from which at least `_LEAST` is kept free
_LEAST = 10.0
_PREFILL = ((160.0, 16384), (60.0, 8192), (20.0, 4096), (0.0, 2048))
"""Prompt tokens a step by GiB of a GPU, where the inventory names none."""
_LIBRARIES, _GRAPHS = 3.0, 1.0  # of a rank of the bundled engine: CUDA, NCCL, kernels; graphs
_PER_LOGIT = 6  # bytes: as 16 bits they are computed, as 32 bits they are judged
_ROUND = 1024  # tokens


@dataclass(frozen=True)
class Models:
    """What is known of target and drafter; `sizes` are their bytes."""

    shape: Shape | None
    drafter: DrafterShape | None
    sizes: tuple[int | None, int | None]


class Need(Word):
    """GiB of one GPU."""

    weights: float | None = None  # of target and drafter
    of_drafter: float | None = None  # of these
    cache: float | None = None
    cache_tokens: int | None = None  # that the cache is for
    reserve: float | None = None
    fits_tokens: int | None = None  # the largest cache beside weights and reserve


def need(deployment: Deployment, models: Models, *, gpu: float | None, use: int) -> Need:
    """`gpu`: GiB of one GPU, of which `use` share the model. What is not known stays None."""
    if gpu is None or use < 1:
        return Need()
    weights, drafter = _weights(deployment, models, use)
    tokens = _tokens(deployment)
    each = _token(deployment, models, use)
    reserve = _reserve(deployment, models, gpu, use)
    fits = None
    if weights is not None and each is not None:
        room = max(gpu - weights - reserve, 0.0) * GIB
        fits = int(room / each) // _ROUND * _ROUND
    return Need(
        weights=weights,
        of_drafter=drafter,
        cache=None if each is None else tokens * each / GIB,
        cache_tokens=tokens,
        reserve=reserve,
        fits_tokens=fits,
    )


def lines(of: Situation) -> list[tuple[str, float, str]]:
    """The budget of one GPU, to be read: what, GiB, from what. Empty where a part is not known."""
    if None in (of.memory, of.weights, of.cache, of.reserve):
        return []
    assert of.memory and of.weights and of.cache and of.reserve, "all of them are known"
    drafter = of.of_drafter or 0.0
    left = of.memory - of.weights - of.cache - of.reserve
    own = of.engine == "ddtree"
    found = [("target", of.weights - drafter, f"its share of {of.use}")]
    if drafter:
        found.append(("drafter", drafter, f"its share of {of.use}"))
    return [
        *found,
        ("cache", of.cache, f"{of.cache_tokens} tokens{_whole(of)}; {of.fits_tokens} would fit"),
        ("reserve", of.reserve, "libraries, graphs, logits" if own else "graphs and activations"),
        ("left", left, f"of {of.memory:.1f}" if left >= 0 else f"of {of.memory:.1f}: too little"),
    ]


def _whole(of: Situation) -> str:
    requests = (of.cache_tokens or 0) // of.context_length
    return f", {requests} requests at full length" if requests > 1 else ""


def _weights(deployment: Deployment, models: Models, use: int) -> tuple[float | None, float | None]:
    """Of both, and of the drafter."""
    target, drafter = models.sizes
    if target is None:
        return None, None
    own = deployment.engine == "ddtree"
    copied = models.shape.copied_bytes if models.shape and own else 0
    shared = copied + (target - copied) / use
    fusion = models.drafter.copied_bytes if models.drafter and own and drafter else 0
    drafts = fusion + ((drafter or 0) - fusion) / use
    return (shared + drafts) / GIB, drafts / GIB


def _tokens(deployment: Deployment) -> int:
    """`kv_tokens`; else one request at full length, and in the bundled engine all of them."""
    limits = deployment.limits
    rows = limits.max_running_requests if deployment.engine == "ddtree" else 1
    return limits.kv_tokens or limits.context_length * rows


def _token(deployment: Deployment, models: Models, use: int) -> float | None:
    """Bytes of one cached token. Latent keys are on all GPUs."""
    shape = models.shape
    if shape is None:
        return None
    target = shape.kv_bytes_per_token / (1 if shape.attention == "mla" else use)
    drafter = models.drafter.kv_bytes_per_token if models.drafter else None
    return target + ((drafter or 0) / use if deployment.engine == "ddtree" else 0)


def _reserve(deployment: Deployment, models: Models, gpu: float, use: int) -> float:
    if deployment.engine == "ddtree":
        return _own_reserve(deployment, models)
    limits = deployment.limits
    chunk = limits.prefill_chunk or next(tokens for least, tokens in _PREFILL if gpu >= least)
    mib = 512 + 1.5 * max(chunk, 2048) + 1024 * use / 8
    if deployment.graphs != "off":
        mib += 2 * limits.max_running_requests
        mib += 1536 if models.shape and models.shape.attention == "mla" else 0
    return max(mib / 1024, _LEAST if gpu > _LARGE else 0.0)


def _own_reserve(deployment: Deployment, models: Models) -> float:
    """Libraries, graphs, and the logits of a full step: every node's, and every drafted one's."""
    decoding, rows = deployment.decoding, deployment.limits.max_running_requests
    nodes = decoding.budget + 1 if decoding.mode == "ddtree" else 1
    drafted = (models.drafter.depth or 0) + 1 if models.drafter else 0
    vocabulary = models.shape.vocabulary if models.shape else 0
    logits = rows * (nodes + drafted) * vocabulary * _PER_LOGIT / GIB
    return _LIBRARIES + (_GRAPHS if deployment.graphs != "off" else 0.0) + logits
