"""Which experts a token goes to, and with what weight, from the router's scores."""

from __future__ import annotations

import torch

from ddtree.config import Experts
from ddtree.ops.backend import uses_kernel
from ddtree.ops.routing import reference

Choice = tuple[torch.Tensor, torch.Tensor]


def route(logits: torch.Tensor, experts: Experts, correction: torch.Tensor | None = None) -> Choice:
    """Experts [..., K] int64, best first, and their weights [..., K] float32.

    logits [..., E] float32; correction [E] float32 chooses with a sigmoid and does not weigh
    (`noaux_tc`, DeepSeek-V3, arXiv 2412.19437). Of equal ones the first is chosen.
    """
    if uses_kernel(logits):
        from ddtree.ops.routing import launch

        rows = logits.reshape(-1, logits.shape[-1]).contiguous()
        chosen, weights = launch.run(rows, experts, correction)
        sizes = (*logits.shape[:-1], experts.active)
        return chosen.view(sizes), weights.view(sizes)
    if experts.sigmoid is None:
        return reference.by_softmax(logits, experts)
    assert correction is not None, "a sigmoid's choice is corrected"
    return reference.by_sigmoid(logits, experts, experts.sigmoid, correction)
