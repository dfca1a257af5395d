"""compressed-tensors' `pack-quantized` INT4: eight numbers a word, a scale a group of columns.

Symmetric: there is no zero point. Equal to that library's own unpacking bit for bit.
"""

from __future__ import annotations

import torch

from ddtree.ops.experts.packed import BITS, OFFSET, PER_WORD


def fits(words: torch.Tensor, scale: torch.Tensor) -> bool:
    """Whether the two are one matrix, a scale for each of a row's equal groups of columns."""
    if words.dtype != torch.int32 or not scale.is_floating_point():
        return False
    rows_agree = scale.dim() == words.dim() == 2 and len(scale) == len(words)
    return rows_agree and words.shape[1] * PER_WORD % scale.shape[1] == 0


def unpack(words: torch.Tensor) -> torch.Tensor:
    """int8 [out, in] in -8 .. 7 of words int32 [out, in / 8]; a word's low bits come first."""
    shifts = torch.arange(0, 32, BITS, dtype=torch.int32, device=words.device)
    numbers = (words.unsqueeze(-1) >> shifts) & (2 * OFFSET - 1)  # [out, in / 8, 8]
    return (numbers - OFFSET).to(torch.int8).flatten(1)


def dequantise(words: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """[out, in] in the type of scale [out, groups], each product rounded to it."""
    numbers = unpack(words).view(*scale.shape, -1)  # [out, groups, group]
    return (numbers.to(scale.dtype) * scale.unsqueeze(-1)).flatten(1)
