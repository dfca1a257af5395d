"""The ranks that share one model, and the two sums they make of what each of them has.

Nothing here reads a device from the host, so that a step with it can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import distributed

# renamed in torch 2.13
_gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)


@dataclass(frozen=True)
class Group:
    """This process is `rank` of `size`. Alone, every method gives back what it was given."""

    rank: int = 0
    size: int = 1

    def first(self, x: torch.Tensor) -> torch.Tensor:
        """x on the first rank and zeros on the others: what a sum over all counts once."""
        return x if self.rank == 0 else torch.zeros_like(x)

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of every rank's x, the same bits on all of them; x itself is overwritten."""
        if self.size > 1:
            distributed.all_reduce(x)
        return x

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """[..., n] of every rank side by side: [..., size * n], the same bits on all of them."""
        if self.size == 1:
            return x
        rows = x.reshape(-1, x.shape[-1])
        parts = x.new_empty(self.size * len(rows), x.shape[-1])
        _gather(parts, rows.contiguous())
        return parts.view(self.size, *x.shape).movedim(0, -2).flatten(-2)


ALONE = Group()
