"""Rows of an embedding table, of which a rank may hold a share."""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.embed import reference


def embed(tokens: torch.Tensor, table: torch.Tensor, first: int = 0) -> torch.Tensor:
    """The rows [.., H] of these tokens; zeros where the table [V, H] does not hold them.

    It holds the tokens from `first` on.
    """
    if uses_kernel(tokens):
        from ddtree.ops.embed import launch

        return launch.embed(tokens, table, first)
    return reference.embed(tokens, table, first)
