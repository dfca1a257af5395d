"""INT4 matrices of a mixture's experts, in the order in which the kernel meets their numbers.

A word of compressed-tensors holds eight columns that lie side by side. Here words have 16 bits, and
one of a block of 128 columns holds c, c + 32, c + 64 and c + 96: one place of 32 words is 32
columns in a row, which share a scale, so that a product needs no shuffle, and two words lie as two
numbers of an operand do. A row is whole lines of 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

BITS = 4
PER_WORD = 32 // BITS  # of compressed-tensors
OFFSET = 1 << (BITS - 1)  # numbers are stored as 0 .. 15
LANES = 32  # words of a row and block; no group of columns with one scale is smaller
PLACES = 16 // BITS
BLOCK = LANES * PLACES  # columns
LINE = 2 * BLOCK


@dataclass(frozen=True)
class Packed:
    """Matrices [E, out, in]. Made by `regrouped` for each expert."""

    words: torch.Tensor  # [E, out, blocks x 32] int16
    scale: torch.Tensor  # [E, out, groups]
    features: int  # in; the last line may have more, of zeros

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.words.shape[0], self.words.shape[1], self.features

    def matrix(self, expert: int, dtype: torch.dtype) -> torch.Tensor:
        """[out, in] of one of them, each product rounded to the scale's type."""
        scale = self.scale[expert]  # [out, groups]
        blocks = self.words[expert].view(len(scale), -1, 1, LANES)
        numbers = (blocks >> _shifts(blocks, PLACES).unsqueeze(-1)) & (2 * OFFSET - 1)
        columns = (numbers - OFFSET).to(scale.dtype).flatten(1)[:, : self.features]
        grouped = columns.reshape(*scale.shape, -1)  # [out, groups, group]
        return (grouped * scale.unsqueeze(-1)).flatten(1).to(dtype)


def stays_packed(words: torch.Tensor, scale: torch.Tensor) -> bool:
    """Whether [out, in / 8] words with scale [out, groups] can be regrouped."""
    columns, groups = words.shape[1] * PER_WORD, scale.shape[1]
    return columns % groups == 0 and columns // groups % LANES == 0


def regrouped(words: torch.Tensor) -> torch.Tensor:
    """compressed-tensors' words [out, in / 8] as those of `Packed`."""
    numbers = (words.unsqueeze(-1) >> _shifts(words, PER_WORD)) & (2 * OFFSET - 1)
    columns = numbers.flatten(1)  # [out, in]
    columns = functional.pad(columns, (0, -columns.shape[1] % LINE), value=OFFSET)
    places = columns.view(len(words), -1, PLACES, LANES)
    out = torch.zeros_like(places[:, :, 0])
    for place in range(PLACES):
        out |= places[:, :, place] << (BITS * place)
    return ((out ^ 0x8000) - 0x8000).to(torch.int16).flatten(1)  # the sign of 16 bits


def _shifts(words: torch.Tensor, places: int) -> torch.Tensor:
    return BITS * torch.arange(places, dtype=words.dtype, device=words.device)
