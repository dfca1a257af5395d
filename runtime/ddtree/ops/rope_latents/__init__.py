"""From the joint product to latent attention: the latent's norm, rotations, the latent to its slot.

Angles are [B, N, 1, D] as `layers.rotary` makes them: `sin` with its first half negated.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.rope_latents import reference

Pair = tuple[torch.Tensor, torch.Tensor]
Norm = tuple[torch.Tensor, float]


def rope_latents(
    joint: torch.Tensor,
    turning: torch.Tensor,
    angles: Pair,
    cache: Pair,
    norm: Norm,
) -> torch.Tensor:
    """Queries [B, N, H, C] of which only the last D numbers are set; writes one layer's latents.

    joint [B, N, C] are latents before their norm and keys to be rotated, turning [B, N, H, D] the
    queries' part to be rotated; both may be parts of wider rows. cache: latents [slots, 1, C] and
    slots [B, N] int64. norm: weight [C - D] and eps.
    """
    latents, slots = cache
    batch, new, heads, dim = turning.shape
    size = joint.shape[-1]
    q = joint.new_empty(batch, new, heads, size)
    if uses_kernel(joint):
        from ddtree.ops.rope_latents import launch

        cos, sin = (angle.contiguous() for angle in angles)
        flat = (joint.flatten(0, 1), turning.flatten(0, 1))
        launch.run(flat, (cos, sin), (latents, slots.contiguous()), norm, q.flatten(0, 1))
        return q
    entry = reference.entries(joint, angles, norm)
    latents.index_copy_(0, slots.flatten(), entry.flatten(0, 1).unsqueeze(1))
    q[..., size - dim :] = reference.turned(turning, *angles)
    return q
