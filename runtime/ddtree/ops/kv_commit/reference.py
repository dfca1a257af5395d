"""Where accepted nodes lie and where they go, in torch."""

from __future__ import annotations

import torch


def slots_along(
    start: torch.Tensor,
    page_table: torch.Tensor,
    page_size: int,
    path: torch.Tensor,
    length: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `commit_slots`."""
    steps = torch.arange(path.shape[1], device=path.device)  # [T]

    def slots(offsets: torch.Tensor) -> torch.Tensor:
        positions = start.unsqueeze(1) + offsets  # [B, T]
        return page_table.gather(1, positions // page_size) * page_size + positions % page_size

    target = slots(steps.expand_as(path))
    return slots(path).where(steps < length.unsqueeze(1), target), target
