"""What an attention leaves of its rows, and the grid that sums it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ddtree.ops.state_sum import kernel

FLYING = 2112  # numbers of states that a program of `finish` loads at once: 66 a thread


@dataclass(frozen=True)
class States:
    """What an attention leaves of each row (token, head): its tail's state, and one a chunk."""

    acc: torch.Tensor  # [rows, parts, D] float32, flat
    weights: torch.Tensor  # [rows, parts, 2] float32, flat: the base and the sum
    last: torch.Tensor  # [B, N] int32, a plan's
    parts: int
    cuts: dict[str, int | bool]  # how positions are cut


def finish(states: States, out: torch.Tensor, piece: int) -> None:
    """Each row's states in order, into out [B, N, H, D]: `piece` numbers of a row a program."""
    *_, heads, dim = out.shape
    kernel.finish[(out.numel() // dim, dim // piece)](
        states.acc,
        states.weights,
        states.last,
        out,
        states.parts,
        H=heads,
        D=dim,
        BD=piece,
        num_warps=1,
        **at_once(states, FLYING // piece),
        **states.cuts,
    )


def at_once(states: States, most: int) -> dict[str, int | bool]:
    """All states on their way at once, or whole groups of them: up to `most` states, or a group."""
    chunks, group = states.parts - 1, states.cuts["GROUP"]
    together = min(chunks, max(most // group, 1) * group)
    power = 1 << (together - 1).bit_length()
    return {"UNROLL": together, "BP": power, "ONCE": together == chunks}
