"""The grid of the gathering."""

from __future__ import annotations

import torch

from ddtree.ops.path_features import kernel

AT_ONCE = 8  # layers of one launch


def gathered(layers: tuple[torch.Tensor, ...], path: torch.Tensor) -> torch.Tensor:
    """See `path_features`. One launch for up to eight layers."""
    (rows, steps), (_, nodes, width) = path.shape, layers[0].shape
    whole = tuple(layer.contiguous() for layer in layers)
    out = whole[0].new_empty(rows, steps, len(layers) * width)
    for first in range(0, len(whole), AT_ONCE):
        some = whole[first : first + AT_ONCE]
        kernel.gather[(rows * steps, len(some))](
            *some,
            *[some[0]] * (AT_ONCE - len(some)),
            path.contiguous(),
            out,
            first,
            nodes,
            steps,
            COUNT=len(layers),
            H=width,
            BH=1 << (width - 1).bit_length(),
            num_warps=4,
        )
    return out
