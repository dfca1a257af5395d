"""The choice of experts in torch: the definition, and what runs on a CPU."""

from __future__ import annotations

import torch

from ddtree.config import Experts, SigmoidRouting

BEST = 2  # experts that a group is judged by


def by_softmax(logits: torch.Tensor, experts: Experts) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest shares of a softmax over all."""
    shares = logits.softmax(-1)
    chosen = largest(shares, experts.active)
    weights = shares.gather(-1, chosen)
    if experts.normalised:
        weights = weights / weights.sum(-1, keepdim=True)
    return chosen, weights


def by_sigmoid(
    logits: torch.Tensor, experts: Experts, routing: SigmoidRouting, correction: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best groups by their two best experts, then the best experts in them."""
    shares = logits.sigmoid()
    chosen = largest(admitted(shares + correction, routing), experts.active)
    weights = shares.gather(-1, chosen)
    if experts.normalised:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return chosen, weights * routing.scaling


def largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Indices of the `count` largest, and of equal ones the first."""
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def admitted(scores: torch.Tensor, routing: SigmoidRouting) -> torch.Tensor:
    """Scores [..., E]; experts of other than the best groups have none."""
    if routing.active_groups == routing.groups:
        return scores
    grouped = scores.view(*scores.shape[:-1], routing.groups, -1)
    best = grouped.topk(BEST, dim=-1).values.sum(-1)  # [..., groups]
    inside = torch.zeros_like(best, dtype=torch.bool)
    inside = inside.scatter(-1, largest(best, routing.active_groups), value=True)
    return grouped.masked_fill(~inside.unsqueeze(-1), -torch.inf).flatten(-2)
