"""Attention of new tokens over the paged cache and over each other.

Key order is by position: first the prefix, then the new tokens. Who sees whom among the new
tokens is data: `causal` for a prompt chunk, `all` for a drafter's block, ancestor words for a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from ddtree.ops.backend import uses_kernel
from ddtree.ops.bitmask import words_for
from ddtree.ops.tree_attention.reference import attend, near, visibility
from ddtree.ops.window_attention import window_attention

if TYPE_CHECKING:
    from ddtree.ops.tree_attention.launch import Paged

Pattern = Literal["causal", "all"]


@dataclass(frozen=True)
class AttentionPlan:
    """What all layers of one forward share. Made by `plan_attention`."""

    write_slots: torch.Tensor  # [B, N] int64, where the new keys and values go
    read_slots: torch.Tensor | None  # [B, L] int64, slots of positions 0 .. L - 1, L >= start + N
    visible: torch.Tensor | None  # [B, N, L] bool
    paged: Paged | None = None  # for the kernels, which need neither of the two above
    window: int | None = None  # of `paged`: keys are seen less than so many positions away


def slots_of(page_table: torch.Tensor, positions: torch.Tensor, page_size: int) -> torch.Tensor:
    """Slots [B, T] of `positions` [B, T] under `page_table` [B, P]."""
    pages = page_table.gather(1, positions // page_size)
    return pages * page_size + positions % page_size


def plan_attention(
    start: torch.Tensor,
    page_table: torch.Tensor,
    new: int,
    pattern: Pattern | torch.Tensor,
    page_size: int,
    longest: int,
) -> AttentionPlan:
    """Plan a forward of `new` tokens a row at positions start .. start + new - 1.

    start [B] int64, page_table [B, P] int64, pattern: `causal`, `all` or ancestor words
    [B, new, W] int64, of trees at most 15 deep. `longest` is the host's max(start) + new; the
    kernels do not look at it, so that a graph holds every length that the page table holds.
    Raises ValueError when the page table is too short or the words do not fit.
    """
    if longest > page_table.shape[1] * page_size:
        raise ValueError(f"{longest} positions need more than {page_table.shape[1]} pages a row")
    if isinstance(pattern, torch.Tensor) and pattern.shape[-2:] != (new, words_for(new)):
        raise ValueError(f"ancestor words {tuple(pattern.shape)} do not fit {new} nodes")
    if uses_kernel(start):
        from ddtree.ops.tree_attention import launch

        write_slots, paged = launch.plan(start, page_table, new, pattern, page_size)
        return AttentionPlan(write_slots, None, None, paged)
    device = start.device
    new_positions = start.unsqueeze(1) + torch.arange(new, device=device)  # [B, N]
    # past a row's own end its last position is read again: unused slots may hold NaN
    all_positions = torch.arange(longest, device=device).minimum(new_positions[:, -1:])  # [B, L]
    return AttentionPlan(
        write_slots=slots_of(page_table, new_positions, page_size),
        read_slots=slots_of(page_table, all_positions, page_size),
        visible=visibility(start, new, longest, pattern),
    )


def plan_window(
    start: torch.Tensor,
    page_table: torch.Tensor,
    new: int,
    pattern: Pattern,
    page_size: int,
    window: int,
) -> AttentionPlan:
    """Plan a forward in which a token sees keys less than `window` positions away.

    Otherwise as `plan_attention`. No shape depends on `start`, so that it can be captured.
    """
    if uses_kernel(start):
        from ddtree.ops.tree_attention import launch

        write_slots, paged = launch.plan(start, page_table, new, pattern, page_size)
        return AttentionPlan(write_slots, None, None, paged, window)
    steps = torch.arange(new, device=start.device)
    back = min(window - 1, page_table.shape[1] * page_size)
    keys = start.unsqueeze(1) + torch.arange(-back, new, device=start.device)  # [B, back + N]
    queries = start.unsqueeze(1) + steps  # [B, N]
    return AttentionPlan(
        write_slots=slots_of(page_table, queries, page_size),
        read_slots=slots_of(page_table, keys.clamp(min=0), page_size),
        visible=near(queries, keys, pattern, window),
    )


def write_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    plan: AttentionPlan,
) -> None:
    """Write k, v [B, N, Hkv, D] into one layer's keys, values [slots, Hkv, D]."""
    slots = plan.write_slots.flatten()
    keys.index_copy_(0, slots, k.flatten(0, 1))
    values.index_copy_(0, slots, v.flatten(0, 1))


def tree_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention [B, N, Hq, D] of q [B, N, Hq, D]; scale D ** -0.5; Hq a multiple of Hkv.

    keys, values [slots, Hkv, D] hold the new tokens already (`write_kv`, `rope_kv`). On CUDA a
    token's result depends on the keys at its positions alone: not on N, B, the tree around it or
    how the prompt was cut. D is then 64 or 128, and Hq at most 16 Hkv.
    """
    if plan.paged is not None and plan.window is not None:
        return window_attention(q, (keys, values), plan.paged, plan.window, out)
    if plan.paged is not None:
        from ddtree.ops.tree_attention import launch

        if q.shape[2] > launch.TAIL_ROWS * keys.shape[1]:
            raise ValueError(f"{q.shape[2]} heads are too many for {keys.shape[1]} key-value heads")
        out = torch.empty_like(q) if out is None else out
        launch.attend(q.contiguous(), (keys, values), plan.paged, out)
        return out
    assert plan.read_slots is not None and plan.visible is not None, "made without a kernel"
    return attend(q, keys, values, plan.read_slots, plan.visible)
