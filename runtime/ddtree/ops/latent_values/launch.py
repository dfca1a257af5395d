"""Grids and tuning constants of what follows latent attention's states."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.latent_values import kernel

PIECE = 128  # numbers of a row that one program of `finish` merges
UNROLL = 16  # states whose loads are under way at once


@dataclass(frozen=True)
class States:
    """What `ops.latent_attention` leaves of each row (token, head), most a state a chunk."""

    acc: torch.Tensor  # [rows, parts, R] float32, flat
    weights: torch.Tensor  # [rows, parts, 2] float32, flat: the largest score and the sum
    last: torch.Tensor  # [B, N] int32, a plan's
    parts: int
    fixed: dict[str, int | bool]  # how positions are cut


@dataclass(frozen=True)
class Blocks:
    """How `values` is launched. No choice here changes a bit of the result."""

    outputs: int  # BV
    warps: int = 4
    unroll: int = UNROLL


def finish(states: States, out: torch.Tensor) -> None:
    """Each row's states in order, into out [B, N, H, R]."""
    rank = out.shape[-1]
    piece = min(PIECE, rank)
    kernel.finish[(rank // piece, out.numel() // rank)](
        states.acc,
        states.weights,
        states.last,
        out,
        states.parts,
        BD=piece,
        UNROLL=UNROLL if states.parts > 2 else 1,
        num_warps=1,
        **states.fixed,
    )


def values(
    states: States, up: torch.Tensor, out: torch.Tensor, blocks: Blocks | None = None
) -> None:
    """Each row's result by its head's up [H, V, R], rows dense, into out [B, N, H, V]."""
    outputs, rows = up.shape[1], out.numel() // up.shape[1]
    by = blocks or choose(rows)
    kernel.values[(-(-outputs // by.outputs), rows)](
        states.acc,
        states.weights,
        states.last,
        up,
        up.stride(0),
        out,
        states.parts,
        V=outputs,
        S_V=up.stride(1),
        BV=by.outputs,
        UNROLL=by.unroll if states.parts > 2 else 1,
        num_warps=by.warps,
        **states.fixed,
    )


def choose(rows: int) -> Blocks:
    """Few outputs a program for a token's rows; a row of many is merged less often."""
    return Blocks(16) if rows <= 16 else Blocks(32)
