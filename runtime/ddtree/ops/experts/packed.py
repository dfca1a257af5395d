"""INT4 matrices of a mixture's experts, in the order in which the kernel meets their numbers.

A word of compressed-tensors holds eight columns that lie side by side. Here a word of a block of
256 columns holds c, c + 32, .. c + 224: one place of 32 words is 32 columns in a row, which share
a scale, so that a product needs neither a shuffle nor a scale a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

BITS = 4
PER_WORD = 32 // BITS
OFFSET = 1 << (BITS - 1)  # numbers are stored as 0 .. 15
LANES = 32  # words of a row and block; no group of columns with one scale is smaller
BLOCK = LANES * PER_WORD  # columns


@dataclass(frozen=True)
class Packed:
    """Matrices [E, out, in]. Made by `regrouped` for each expert."""

    words: torch.Tensor  # [E, out, blocks x 32] int32
    scale: torch.Tensor  # [E, groups, out]
    features: int  # in; the last block may have more, of zeros

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.words.shape[0], self.words.shape[1], self.features

    def matrix(self, expert: int, dtype: torch.dtype) -> torch.Tensor:
        """[out, in] of one of them, each product rounded to the scale's type."""
        scale = self.scale[expert].T  # [out, groups]
        blocks = self.words[expert].view(len(scale), -1, 1, LANES)
        numbers = (blocks >> _shifts(blocks).unsqueeze(-1)) & (2 * OFFSET - 1)
        columns = (numbers - OFFSET).to(scale.dtype).flatten(1)[:, : self.features]
        grouped = columns.reshape(*scale.shape, -1)  # [out, groups, group]
        return (grouped * scale.unsqueeze(-1)).flatten(1).to(dtype)


def stays_packed(words: torch.Tensor, scale: torch.Tensor) -> bool:
    """Whether [out, in / 8] words with scale [out, groups] can be regrouped."""
    columns, groups = words.shape[1] * PER_WORD, scale.shape[1]
    return columns % groups == 0 and columns // groups % LANES == 0


def regrouped(words: torch.Tensor) -> torch.Tensor:
    """compressed-tensors' words [out, in / 8] as those of `Packed`."""
    numbers = (words.unsqueeze(-1) >> _shifts(words)) & (2 * OFFSET - 1)  # [out, in / 8, 8]
    columns = numbers.flatten(1)
    columns = functional.pad(columns, (0, -columns.shape[1] % BLOCK), value=OFFSET)
    places = columns.view(len(words), -1, PER_WORD, LANES)
    out = torch.zeros_like(places[:, :, 0])
    for place in range(PER_WORD):
        out |= places[:, :, place] << (BITS * place)
    return out.flatten(1)


def _shifts(words: torch.Tensor) -> torch.Tensor:
    return torch.arange(0, 32, BITS, dtype=torch.int32, device=words.device)
