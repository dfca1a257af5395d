"""The features of accepted nodes, out of several layers at once."""

from __future__ import annotations

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.path_features import reference


def path_features(layers: tuple[torch.Tensor, ...], path: torch.Tensor) -> torch.Tensor:
    """Rows path [B, T] int64 of layers [B, N, H], side by side: [B, T, len(layers) * H]."""
    if uses_kernel(path):
        from ddtree.ops.path_features import launch

        return launch.gathered(layers, path)
    return reference.gathered(layers, path)
