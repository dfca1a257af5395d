"""The bytes one GPU cannot avoid reading in one step, and the work it cannot avoid doing. Pure.

Tensors are spread over the GPUs, except what engines copy to each: the down-projections of latent
attention, its cache, and the routers. Routing is taken as uniform: a token picks `top` of `count`
experts like a fair draw, so M tokens touch count x (1 - (1 - top / count)^M) of a layer's experts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddops.spec.cost import Target

_WIDE = 2  # bytes of a weight or a cached value outside the experts
GB = 1e9


@dataclass(frozen=True)
class Bytes:
    """Of one GPU in one step."""

    dense: float  # attention, shared experts, dense layers, routers, head
    experts: float  # routed ones that at least one token picked
    cache: float
    draft: float  # the drafter, and the target's head once more

    @property
    def target_weights(self) -> float:
        return self.dense + self.experts


def touched(target: Target, tokens: int) -> float:
    """Experts of one layer that a step with `tokens` tokens reads, on average."""
    experts = target.experts
    if experts is None:
        return 0.0
    return experts.count * (1 - (1 - experts.top / experts.count) ** tokens)


def expert_bytes(
    target: Target, touched_experts: float, gpus: int, *, packed: bool = False
) -> float:
    """Bytes of `touched_experts` experts in every layer, on one GPU; `packed` without scales."""
    experts = target.experts
    if experts is None:
        return 0.0
    size = experts.packed_bytes_per_weight if packed else experts.bytes_per_weight
    weights = 3 * target.hidden * experts.width
    return touched_experts * experts.layers * weights * size / gpus


def read(target: Target, gpus: int, tokens: int, cached: int) -> Bytes:
    """`tokens` verified in one step, `cached` positions of context over all requests."""
    head = _WIDE * target.vocab * target.hidden / gpus
    drafter = target.drafter_gb
    return Bytes(
        dense=dense_bytes(target, gpus),
        experts=expert_bytes(target, touched(target, tokens), gpus),
        cache=cached * _cache_bytes(target, gpus),
        draft=drafter * GB / gpus + head if drafter else 0.0,
    )


def held(target: Target, gpus: int, cached: int) -> float:
    """Bytes that one GPU must hold: all experts, the embedding and the cache too."""
    experts = target.experts.count if target.experts else 0
    embedding = _WIDE * target.vocab * target.hidden / gpus
    drafter = (target.drafter_gb or 0.0) * GB / gpus
    weights = dense_bytes(target, gpus) + expert_bytes(target, experts, gpus)
    return weights + embedding + drafter + cached * _cache_bytes(target, gpus)


def dense_bytes(target: Target, gpus: int) -> float:
    return _WIDE * (_spread(target) / gpus + _copied(target))


def flops(target: Target, gpus: int, tokens: int) -> float:
    """Two a weight that a token passes; the products with the cache are left out."""
    experts = target.experts
    routed = 3 * target.hidden * experts.width * experts.top * experts.layers if experts else 0
    return 2 * tokens * ((_spread(target) + routed) / gpus + _copied(target))


def _spread(target: Target) -> float:
    """Weights that every GPU holds a part of."""
    experts = target.experts
    dense_layers = target.layers - (experts.layers if experts else 0)
    mlp = dense_layers * 3 * target.hidden * target.intermediate
    if experts:
        mlp += experts.layers * experts.shared * 3 * target.hidden * experts.width
    return target.layers * _attention(target) + mlp + target.vocab * target.hidden


def _attention(target: Target) -> float:
    latent = target.latent
    if latent is None:
        width = (2 * target.heads + 2 * target.kv_heads) * target.head_dim
        return target.hidden * width
    up = latent.query * (latent.nope + latent.rope) + latent.key_value * (
        latent.nope + latent.value
    )
    return target.heads * (up + latent.value * target.hidden)


def _copied(target: Target) -> float:
    """Weights that every GPU holds whole."""
    latent, experts = target.latent, target.experts
    down = latent.query + latent.key_value + latent.rope if latent else 0
    routers = experts.count * experts.layers if experts else 0
    return target.hidden * (target.layers * down + routers)


def _cache_bytes(target: Target, gpus: int) -> float:
    """Of one position on one GPU."""
    if target.latent is not None:
        return _WIDE * target.layers * (target.latent.key_value + target.latent.rope)
    return (
        _WIDE * target.layers * 2 * target.kv_heads * target.head_dim / min(gpus, target.kv_heads)
    )
