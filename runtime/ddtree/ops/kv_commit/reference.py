"""Where accepted nodes lie and where they go, in torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Moves:
    """Slots [B, T] int64 of accepted nodes and where they go, which is at `positions`."""

    source: torch.Tensor
    target: torch.Tensor
    positions: torch.Tensor


def slots_along(
    start: torch.Tensor,
    page_table: torch.Tensor,
    page_size: int,
    path: torch.Tensor,
    length: torch.Tensor,
) -> Moves:
    """See `commit_slots`."""
    steps = torch.arange(path.shape[1], device=path.device)  # [T]

    def slots(positions: torch.Tensor) -> torch.Tensor:
        return page_table.gather(1, positions // page_size) * page_size + positions % page_size

    begin = start.unsqueeze(1)
    positions = begin + steps  # [B, T]
    target = slots(positions)
    source = slots(begin + path).where(steps < length.unsqueeze(1), target)
    return Moves(source, target, positions)
