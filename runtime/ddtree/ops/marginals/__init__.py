"""What a drafter thinks of each position: its most probable tokens, ranked."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals
from ddtree.ops.backend import uses_kernel
from ddtree.ops.marginals.reference import most_probable


def marginals(logits: torch.Tensor, width: int) -> Marginals:
    """The `width` most probable tokens of logits [B, D, V] with their log-probabilities over V.

    At most V of them. On CUDA equal logits go to the smaller token; elsewhere they are torch's.
    """
    width = min(width, logits.shape[-1])
    if width < 1:
        raise ValueError(f"width {width} must be at least 1")
    if uses_kernel(logits):
        from ddtree.ops.marginals import launch

        return launch.most_probable(logits, width)
    return most_probable(logits, width)
