"""Cross-entropy with the target's token and with its whole distribution, through the frozen head.

The gradient of both in the logits is a difference of distributions, so a chunk's loss and gradient
are had at once and no logits are kept: at 49152 tokens a step's would be 6 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn import functional

CHUNK = 4096  # positions at most

Judged = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Judge = Callable[..., Judged]


@dataclass(frozen=True)
class Lesson:
    """What N positions should have said."""

    tokens: torch.Tensor  # [N] int64
    hidden: torch.Tensor  # [N, H], the target's where it chose them
    weight: torch.Tensor  # [N] float32
    soft: float  # share of the whole distribution


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
    tokens: torch.Tensor,  # [n]
    theirs: torch.Tensor,  # [n, H], the target's hidden
    share: torch.Tensor,  # [n] float32, of the mean
    soft: float,
) -> Judged:
    """Loss, gradient in hidden [n, H], and whether the best token was right [n], of one chunk."""
    logits = functional.linear(hidden.to(head.dtype), head).float()
    log_q = logits.log_softmax(-1)
    log_p = functional.linear(theirs.to(head.dtype), head).float().log_softmax(-1)
    p = log_p.exp()
    hard = -log_q.gather(1, tokens.unsqueeze(1))[:, 0]
    far = (p * (log_p - log_q)).sum(-1)
    loss = (((1 - soft) * hard + soft * far) * share).sum()
    error = (log_q.exp() - soft * p) * share.unsqueeze(1)
    pull = functional.linear(error.to(head.dtype), head.T).float()
    gradient = pull - ((1 - soft) * share).unsqueeze(1) * head[tokens].float()
    return loss, gradient, logits.argmax(-1) == tokens


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
        count = -(-len(hidden) // CHUNK)  # chunks of one size, so that one compilation serves all
        columns = (hidden, lesson.tokens, lesson.hidden, share)
        parts = zip(*(torch.tensor_split(column, count) for column in columns), strict=True)
        losses, gradients, rights = zip(
            *(
                work(h, head, tokens, theirs, part, lesson.soft)
                for h, tokens, theirs, part in parts
            ),
            strict=True,
        )
        ctx.save_for_backward(torch.cat(gradients).to(hidden.dtype))
        right = torch.cat(rights)
        ctx.mark_non_differentiable(right)
        return torch.stack(losses).sum(), right

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor, _: torch.Tensor) -> Any:  # noqa: ANN401
        (gradient,) = ctx.saved_tensors
        return gradient * scale, None, None, None
