"""The target's choice after each node: argmax, or a draw that a seed and a position decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.sample import reference
from ddtree.ops.sample.reference import Filters

Method = Literal["greedy", "full", "nucleus"]


@dataclass(frozen=True)
class Narrowing:
    """Filters beside top_p, for rows that ask for them."""

    top_k: torch.Tensor  # [B] int64, how many of the most probable tokens; 0: all
    min_p: torch.Tensor  # [B] float32, probability of a token, relative to the most probable


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_p: torch.Tensor,
    draw: torch.Tensor,
    *,
    method: Method,
    narrowing: Narrowing | None = None,
) -> torch.Tensor:
    """Choose a token [B, N] int64 from logits [B, N, V].

    temperature [B]: 0 is argmax (the first of equals). top_p [B]: the smallest set of most
    probable tokens whose sum reaches it, among what min_p and top_k leave, in this order.
    draw [B, N] float64: the uniform number of each node. `method` is what the host knows of the
    rows, so that no step has to ask the device: `greedy` ignores all, `full` ignores the filters,
    `nucleus` serves every row.
    """
    filters = Filters(None)
    if method == "nucleus":
        extra = (narrowing.top_k, narrowing.min_p) if narrowing else (None, None)
        filters = Filters(top_p, *extra)
    if uses_kernel(logits):
        from ddtree.ops.sample import launch

        return launch.sample(logits, temperature, draw, filters, greedy=method == "greedy")
    if method == "greedy":
        return logits.argmax(-1)
    return reference.sample(logits, temperature, draw, filters)


def uniform(seed: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """One number in (0, 1), float64, for each pair of int64s; same shape as the broadcast."""
    if uses_kernel(position):
        from ddtree.ops.sample import launch

        return launch.uniform(seed, position)
    return reference.uniform(seed, position)
