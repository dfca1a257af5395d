"""The grids of the rotary kernels."""

from __future__ import annotations

import torch

from ddtree.ops.rope_kv import kernel

HEADS = 4  # heads a program; one warp each


def rope_kv(
    joint: torch.Tensor,
    angles: tuple[torch.Tensor, torch.Tensor],
    kv: tuple[torch.Tensor, torch.Tensor],
    slots: torch.Tensor,
    norm: tuple[torch.Tensor, float] | None,
    out: torch.Tensor,
) -> None:
    """joint [T, Hq + 2 Hkv, D] to out [T, Hq, D] and to the slots [T]."""
    tokens, heads, dim = joint.shape
    weight, eps = norm or (joint, 0.0)
    kernel.rope_kv[(tokens, -(-heads // HEADS))](
        joint,
        *angles,
        weight,
        out,
        *kv,
        slots,
        eps,
        HQ=out.shape[1],
        HKV=kv[0].shape[1],
        D=dim,
        BH=HEADS,
        NORM=norm is not None,
        num_warps=4,
    )


def context(
    joint: torch.Tensor,
    angles: tuple[torch.Tensor, torch.Tensor],
    kv: torch.Tensor,
    slots: torch.Tensor,
    norm: tuple[torch.Tensor, float] | None,
) -> None:
    """joint [T, layers, 2, Hkv, D] to kv [layers, 2, slots, Hkv, D]."""
    tokens, layers, _, heads, dim = joint.shape
    weight, eps = norm or (joint, 0.0)
    kernel.context[(tokens, layers)](
        joint,
        *angles,
        weight,
        kv,
        kv.stride(0),
        kv.stride(1),
        slots,
        eps,
        LAYERS=layers,
        HKV=heads,
        D=dim,
        BH=1 << (heads - 1).bit_length(),
        NORM=norm is not None,
        num_warps=4,
    )
