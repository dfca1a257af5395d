"""Ancestor bitmasks as int64 words: 63 nodes a word, so the sign bit stays clear.

Bit j % 63 of word j // 63 in row i says that node i attends to node j.
"""

import torch

BITS = 63


def words_for(nodes: int) -> int:
    """How many words a row of `nodes` nodes needs."""
    return (nodes + BITS - 1) // BITS


def pack(visible: torch.Tensor) -> torch.Tensor:
    """Pack `visible` [..., N] bool into words [..., W] int64."""
    nodes = visible.shape[-1]
    words = words_for(nodes)
    padded = torch.nn.functional.pad(visible, (0, words * BITS - nodes))
    grouped = padded.reshape(*visible.shape[:-1], words, BITS).to(torch.int64)  # [..., W, 63]
    return (grouped << torch.arange(BITS, device=visible.device)).sum(-1)


def unpack(words: torch.Tensor, nodes: int) -> torch.Tensor:
    """The inverse of `pack`: words [..., W] int64 to [..., N] bool."""
    shifts = torch.arange(BITS, device=words.device)
    bits = (words.unsqueeze(-1) >> shifts) & 1  # [..., W, 63]
    return bits.flatten(-2)[..., :nodes].bool()
