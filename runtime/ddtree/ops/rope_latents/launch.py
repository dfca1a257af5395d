"""The grid of the kernel that fills the cache of latents."""

from __future__ import annotations

import torch

from ddtree.ops.rope_latents import kernel

HEADS = 8  # heads a program


def run(
    flat: tuple[torch.Tensor, torch.Tensor],
    angles: tuple[torch.Tensor, torch.Tensor],
    cache: tuple[torch.Tensor, torch.Tensor],
    norm: tuple[torch.Tensor, float],
    out: torch.Tensor,
) -> None:
    """joint [T, C] and turning [T, H, D], last dimensions dense, to the slots and to out."""
    joint, turning = flat
    latents, slots = cache
    weight, eps = norm
    tokens, heads, dim = turning.shape
    rank = joint.shape[1] - dim
    kernel.rope_latents[(tokens, 1 + -(-heads // HEADS))](
        joint,
        joint.stride(0),
        turning,
        turning.stride(0),
        turning.stride(1),
        *angles,
        latents,
        slots,
        weight,
        out,
        eps,
        H=heads,
        R=rank,
        D=dim,
        BR=1 << (rank - 1).bit_length(),
        BH=HEADS,
        num_warps=4,
    )
