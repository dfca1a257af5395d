"""The target's choice after each node: argmax, or a draw that a seed and a position decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.sample import reference
from ddtree.ops.sample.reference import Chance, Chosen, Filters, uniform

__all__ = ["Chance", "Chosen", "Method", "Narrowing", "sample", "uniform"]

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
    chance: Chance,
    *,
    method: Method,
    narrowing: Narrowing | None = None,
) -> Chosen:
    """Choose a token for each of logits [B, N, V].

    temperature [B]: 0 is argmax (the first of equals). top_p [B]: the smallest set of most
    probable tokens whose sum reaches it, among what min_p and top_k leave, in this order.
    `chance` gives each node its uniform number. `method` is what the host knows of the rows, so
    that no step has to ask the device: `greedy` ignores all, `full` ignores the filters,
    `nucleus` serves every row.
    """
    filters = Filters(None)
    if method == "nucleus":
        extra = (narrowing.top_k, narrowing.min_p) if narrowing else (None, None)
        filters = Filters(top_p, *extra)
    if uses_kernel(logits):
        from ddtree.ops.sample import launch

        return launch.sample(logits, temperature, chance, filters, greedy=method == "greedy")
    peak = logits.amax(-1).float()
    if method == "greedy":
        return Chosen(logits.argmax(-1), peak)
    return Chosen(reference.sample(logits, temperature, chance.draw, filters), peak)
