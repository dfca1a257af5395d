"""The grid of the look-up."""

from __future__ import annotations

import torch

from ddtree.ops.embed import kernel

PIECE = 1024  # numbers of a row that a program copies


def embed(tokens: torch.Tensor, table: torch.Tensor, first: int) -> torch.Tensor:
    """See `ops.embed.embed`. On an H200 1.4 to 1.7 us; torch's takes 7 to 8 for 9 or 16 tokens."""
    rows, hidden = table.shape
    out = table.new_empty(*tokens.shape, hidden)
    piece = min(PIECE, 1 << (hidden - 1).bit_length())
    kernel.embed[(tokens.numel(), -(-hidden // piece))](
        tokens.contiguous(),
        table.contiguous(),
        out,
        first,
        rows,
        H=hidden,
        BH=piece,
        num_warps=2,
    )
    return out
