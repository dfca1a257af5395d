"""The most probable tokens in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch

from ddtree.core.batch import Marginals


def most_probable(logits: torch.Tensor, width: int) -> Marginals:
    """See `marginals`."""
    top = logits.float().topk(width, dim=-1)
    return Marginals(top.indices, top.values - logits.float().logsumexp(-1, keepdim=True))
