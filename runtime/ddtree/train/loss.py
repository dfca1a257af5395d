"""Cross-entropy with the target's token and with its whole distribution, through the frozen head.

The gradient of both in the logits is a difference of distributions, so a chunk's loss and gradient
are had at once and no logits are kept: at 49152 tokens a step's would be 6 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

CHUNK = 4096  # positions


@dataclass(frozen=True)
class Lesson:
    """What N positions should have said."""

    tokens: torch.Tensor  # [N] int64
    hidden: torch.Tensor  # [N, H], the target's where it chose them
    weight: torch.Tensor  # [N] float32
    soft: float  # share of the whole distribution


def head_loss(
    hidden: torch.Tensor, head: torch.Tensor, lesson: Lesson
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted mean loss of hidden [N, H] under head [V, H], and whether each was right [N]."""
    loss, right = _HeadLoss.apply(hidden, head, lesson)  # type: ignore[no-untyped-call]
    return loss, right


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        hidden: torch.Tensor,
        head: torch.Tensor,
        lesson: Lesson,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gradient = torch.empty_like(hidden)
        right = torch.empty(len(hidden), dtype=torch.bool, device=hidden.device)
        total = torch.zeros((), device=hidden.device)
        share = lesson.weight / lesson.weight.sum().clamp(min=1e-9)
        for at in range(0, len(hidden), CHUNK):
            part = slice(at, at + CHUNK)
            logits = functional.linear(hidden[part].to(head.dtype), head).float()
            right[part] = logits.argmax(-1) == lesson.tokens[part]
            wanted, entropy = _wanted(lesson, part, head)
            log_q = logits.log_softmax(-1)
            each = -(wanted * log_q).sum(-1) - lesson.soft * entropy
            total += (each * share[part]).sum()
            error = (log_q.exp_() - wanted) * share[part].unsqueeze(1)
            gradient[part] = functional.linear(error.to(head.dtype), head.T).to(gradient.dtype)
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor, _: torch.Tensor) -> Any:  # noqa: ANN401
        (gradient,) = ctx.saved_tensors
        return gradient * scale, None, None


def _wanted(lesson: Lesson, part: slice, head: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The distribution to learn [n, V], and the entropy [n] of the soft one in it."""
    logits = functional.linear(lesson.hidden[part].to(head.dtype), head).float()
    log_p = logits.log_softmax(-1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(-1)
    wanted = p * lesson.soft
    hard = torch.full_like(wanted[:, :1], 1 - lesson.soft)
    return wanted.scatter_add_(1, lesson.tokens[part].unsqueeze(1), hard), entropy
