"""From the joint product to latent attention: latents to their slots, queries to their space.

Angles are [B, N, 1, D] as `layers.rotary` makes them: `sin` with its first half negated.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.head_linear.reference import multiply
from ddtree.ops.rms_norm.reference import normed
from ddtree.ops.rope_latents import reference

Pair = tuple[torch.Tensor, torch.Tensor]
Norm = tuple[torch.Tensor, float]


def rope_latents(
    joint: torch.Tensor, angles: Pair, cache: Pair, norm: Norm, query_norm: Norm | None = None
) -> torch.Tensor:
    """Writes one layer's latents; gives the query's part [B, N, Q], normed if `query_norm` is.

    joint [B, N, Q + C] are queries' parts, latents before their norm, and keys to be rotated.
    cache: latents [slots, 1, C] and slots [B, N] int64. norm: weight [C - D] and eps.
    """
    latents, slots = cache
    narrow = joint[..., : -latents.shape[-1]]
    if uses_kernel(joint):
        from ddtree.ops.rope_latents import launch

        query = narrow if query_norm is None else narrow.new_empty(narrow.shape)
        turned_by = (angles[0].contiguous(), angles[1].contiguous())
        place = (latents, slots.contiguous())
        launch.write(joint.flatten(0, 1), turned_by, place, (norm, query_norm), query.flatten(0, 1))
        return query
    entry = reference.entries(joint[..., -latents.shape[-1] :], angles, norm)
    latents.index_copy_(0, slots.flatten(), entry.flatten(0, 1).unsqueeze(1))
    return narrow if query_norm is None else normed(narrow, *query_norm)


def latent_queries(heads: torch.Tensor, key_up: torch.Tensor, angles: Pair) -> torch.Tensor:
    """Queries [B, N, H, R + D]: of heads [B, N, H, nope + D] by key_up, their end rotated.

    key_up is [H, nope, R], the last dimension of heads dense.
    """
    weight = key_up.transpose(1, 2)
    nope, rank = key_up.shape[1:]
    q = heads.new_empty(*heads.shape[:-1], rank + heads.shape[-1] - nope)
    if uses_kernel(heads):
        from ddtree.ops.rope_latents import launch

        cos, sin = (angle.contiguous() for angle in angles)
        launch.queries(heads.flatten(0, 1), weight, (cos, sin), q.flatten(0, 1))
        return q
    q[..., :rank] = multiply(heads[..., :nope], weight)
    q[..., rank:] = reference.turned(heads[..., nope:], *angles)
    return q
