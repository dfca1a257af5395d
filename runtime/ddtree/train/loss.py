"""Cross-entropy with the target's token and with its likely ones, through the frozen head.

The gradient of both in the logits is a difference of distributions, so a chunk's loss and gradient
are had at once and no logits are kept. What the target's distribution pulls towards is a few rows
of the head: the products with the whole of it are two, forth and back, whatever share it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn import functional

from ddtree.core.batch import Marginals

CHUNK = 1 << 14  # positions at most; 1.6 GB of logits at 49152 tokens in 16 bits, twice

LEAST = -1e4  # for a logarithm of 0

Judged = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Judge = Callable[..., Judged]


@dataclass(frozen=True)
class Lesson:
    """What N positions should have said."""

    tokens: torch.Tensor  # [N] int64
    likely: Marginals  # [N, k], the target's most probable ones there
    weight: torch.Tensor  # [N] float32
    soft: float  # share of the likely ones


def head_loss(
    hidden: torch.Tensor, head: torch.Tensor, lesson: Lesson, *, compiled: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted mean loss of hidden [N, H] under head [V, H], and whether each was right [N]."""
    work = _compiled() if compiled else judge
    loss, right = _HeadLoss.apply(hidden, head, lesson, work)  # type: ignore[no-untyped-call]
    return loss, right


def judge(
    hidden: torch.Tensor,  # [n, H]
    head: torch.Tensor,  # [V, H]
    wanted: torch.Tensor,  # [n, 1 + k] tokens, the one that came first
    weight: torch.Tensor,  # [n, 1 + k] float32
) -> Judged:
    """Loss, gradient in hidden [n, H], and whether the best token was right [n], of one chunk."""
    logits = functional.linear(hidden.to(head.dtype), head).float()
    norm = logits.logsumexp(-1, keepdim=True)
    loss = (weight * (norm - logits.gather(1, wanted))).sum()
    found = (logits - norm).exp() * weight.sum(-1, keepdim=True)
    push = functional.linear(found.to(head.dtype), head.T).float()
    pull = (head[wanted].float() * weight.unsqueeze(2)).sum(1)
    return loss, push - pull, logits.argmax(-1) == wanted[:, 0]


@cache
def _compiled() -> Judge:
    work: Judge = torch.compile(judge)
    return work


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        hidden: torch.Tensor,
        head: torch.Tensor,
        lesson: Lesson,
        work: Judge,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        share = lesson.weight / lesson.weight.sum().clamp(min=1e-9)
        p = lesson.likely.logprobs.exp()
        certain = torch.full_like(p[:, :1], 1 - lesson.soft)
        weight = torch.cat([certain, lesson.soft * p], 1) * share.unsqueeze(1)
        wanted = torch.cat([lesson.tokens.unsqueeze(1), lesson.likely.tokens], 1)
        count = -(-len(hidden) // CHUNK)  # chunks of one size, so that one compilation serves all
        parts = zip(
            *(torch.tensor_split(column, count) for column in (hidden, wanted, weight)), strict=True
        )
        losses, gradients, rights = zip(
            *(work(h, head, tokens, each) for h, tokens, each in parts), strict=True
        )
        # that the target's own doubt is no loss: 0 where the drafter says what the target does
        doubt = (p * lesson.likely.logprobs.clamp(min=LEAST)).sum(-1)
        ctx.save_for_backward(torch.cat(gradients).to(hidden.dtype))
        right = torch.cat(rights)
        ctx.mark_non_differentiable(right)
        return torch.stack(losses).sum() + lesson.soft * (doubt * share).sum(), right

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor, _: torch.Tensor) -> Any:  # noqa: ANN401
        (gradient,) = ctx.saved_tensors
        return gradient * scale, None, None, None
