"""The grid of the choice of experts."""

from __future__ import annotations

import torch

from ddtree.config import Experts, SigmoidRouting
from ddtree.ops.routing import kernel

NO_GROUPS = SigmoidRouting(groups=1, active_groups=1, scaling=1.0)


def run(
    logits: torch.Tensor, experts: Experts, correction: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """logits [T, E] to experts and weights [T, K]."""
    tokens, count = logits.shape
    routing = experts.sigmoid or NO_GROUPS
    chosen = torch.empty(tokens, experts.active, dtype=torch.int64, device=logits.device)
    weights = torch.empty(tokens, experts.active, dtype=torch.float32, device=logits.device)
    kernel.route[(tokens,)](
        logits,
        logits if correction is None else correction,
        chosen,
        weights,
        routing.scaling,
        E=count,
        BE=1 << (count - 1).bit_length(),
        K=experts.active,
        BK=1 << (experts.active - 1).bit_length(),
        GROUPS=routing.groups,
        ACTIVE=routing.active_groups,
        BG=1 << (routing.groups - 1).bit_length(),
        SIGMOID=experts.sigmoid is not None,
        NORMALISED=experts.normalised,
        num_warps=1,
    )
    return chosen, weights
