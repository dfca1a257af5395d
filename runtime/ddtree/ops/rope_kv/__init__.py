"""From the joint product to attention: head norm, rotary positions, keys and values to their slots.

Angles are [B, N, 1, D] as `layers.rotary` makes them: `sin` with its first half negated. A norm is
its weight, a row a head, and its eps.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.rope_kv.reference import turned

Pair = tuple[torch.Tensor, torch.Tensor]
Norm = tuple[torch.Tensor, float]


def rope_kv(
    joint: torch.Tensor, angles: Pair, kv: Pair, slots: torch.Tensor, norm: Norm | None = None
) -> torch.Tensor:
    """Queries [B, N, Hq, D] of joint [B, N, Hq + 2 Hkv, D]; writes one layer's keys and values.

    kv: keys and values [slots, Hkv, D], slots [B, N] int64, norm weight [Hq + Hkv, D].
    """
    keys, values = kv
    kv_heads = keys.shape[1]
    heads = joint.shape[2] - 2 * kv_heads
    if uses_kernel(joint):
        from ddtree.ops.rope_kv import launch

        flat = joint.contiguous().flatten(0, 1)  # [T, heads, D]
        q = torch.empty(
            *joint.shape[:2], heads, joint.shape[3], dtype=joint.dtype, device=joint.device
        )
        cos, sin = (angle.contiguous() for angle in angles)
        launch.rope_kv(flat, (cos, sin), kv, slots.contiguous(), norm, q.flatten(0, 1))
        return q
    weight, eps = norm or (None, 0.0)
    moving, v = torch.split(joint, [heads + kv_heads, kv_heads], dim=2)
    q, k = torch.split(turned(moving, *angles, weight, eps), [heads, kv_heads], dim=2)
    keys.index_copy_(0, slots.flatten(), k.flatten(0, 1))
    values.index_copy_(0, slots.flatten(), v.flatten(0, 1))
    return q


def write_context(
    joint: torch.Tensor, angles: Pair, kv: torch.Tensor, slots: torch.Tensor, norm: Norm | None
) -> None:
    """A drafter's context in all layers at once: joint [B, T, layers, 2, Hkv, D] to the slots.

    kv [layers, 2, slots, Hkv, D], slots [B, T] int64, norm weight [layers, Hkv, D] for the keys.
    """
    if uses_kernel(joint):
        from ddtree.ops.rope_kv import launch

        cos, sin = (angle.contiguous() for angle in angles)
        flat = joint.contiguous().flatten(0, 1)
        launch.context(flat, (cos, sin), kv, slots.contiguous(), norm)
        return
    weight, eps = norm or (None, 0.0)
    k, v = joint.unbind(3)  # [B, T, layers, Hkv, D]
    cos, sin = (angle.unsqueeze(2) for angle in angles)
    index = slots.flatten()
    for side, new in enumerate((turned(k, cos, sin, weight, eps), v)):
        kv[:, side].index_copy_(1, index, new.flatten(0, 1).transpose(0, 1))
