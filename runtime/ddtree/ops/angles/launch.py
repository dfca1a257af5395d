"""The grid of the angles."""

from __future__ import annotations

import torch

from ddtree.ops.angles import kernel


def turns(
    positions: torch.Tensor, frequency: torch.Tensor, amplitude: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `angles`. One launch instead of torch's eight."""
    (size,) = frequency.shape
    shape = (*positions.shape, 1, size)
    cos, sin = (torch.empty(shape, dtype=dtype, device=positions.device) for _ in range(2))
    kernel.turns[(positions.numel(),)](
        positions.contiguous(),
        frequency,
        cos,
        sin,
        amplitude,
        D=size,
        BD=1 << (size - 1).bit_length(),
        num_warps=1,
    )
    return cos, sin
