"""INT4 matrices of a mixture's experts, in the order in which the kernels meet their numbers.

A word of compressed-tensors holds eight columns that lie side by side. Here words have 16 bits, and
one of a block of 128 columns holds c, c + 32, c + 64 and c + 96: one place of 32 words is 32
columns in a row, which share a scale, so that a product needs no shuffle, and two words lie as two
numbers of an operand do. A line is two blocks, of 16 rows one after the other: what a program reads
at once is in one piece, not 128 bytes here and there.
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
BLOCKS = 2  # of a line
LINE = BLOCKS * PLACES * LANES  # columns
ROWS = 16


@dataclass(frozen=True)
class Packed:
    """Matrices [E, out, in]. Made by `regrouped`."""

    words: torch.Tensor  # [E, out / 16, in / 256, 16, 64] int16
    scale: torch.Tensor  # [E, out / 16, in / 256, 16, 8], one for each 32 columns
    outputs: int
    features: int  # past either there are zeros

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.words.shape[0], self.outputs, self.features

    def matrix(self, expert: int, dtype: torch.dtype) -> torch.Tensor:
        """[out, in] of one of them, each product rounded to the scale's type."""
        blocks = self.words[expert].view(*self.words.shape[1:4], BLOCKS, 1, LANES)
        numbers = (blocks >> _shifts(blocks, PLACES).unsqueeze(-1)) & (2 * OFFSET - 1)
        scale = self.scale[expert].view(*blocks.shape[:4], PLACES, 1)
        columns = (numbers - OFFSET).to(scale.dtype) * scale  # [out / 16, in / 256, 16, 2, 4, 32]
        rows = columns.flatten(3).transpose(1, 2).flatten(2).flatten(0, 1).to(dtype)
        return rows[: self.outputs, : self.features]


def stays_packed(words: torch.Tensor, scale: torch.Tensor) -> bool:
    """Whether [out, in / 8] words with scale [out, groups] can be regrouped."""
    columns, groups = words.shape[1] * PER_WORD, scale.shape[1]
    return columns % groups == 0 and columns // groups % LANES == 0


def regrouped(words: torch.Tensor, scale: torch.Tensor) -> Packed:
    """compressed-tensors' words [E, out, in / 8] and scale [E, out, groups]."""
    numbers = (words.unsqueeze(-1) >> _shifts(words, PER_WORD)) & (2 * OFFSET - 1)
    numbers = numbers.flatten(2)  # [E, out, in]
    outputs, features = numbers.shape[1:]
    tiled = _tiled(numbers, LINE, OFFSET)
    places = tiled.view(*tiled.shape[:4], BLOCKS, PLACES, LANES)
    out = torch.zeros_like(places[..., 0, :])
    for place in range(PLACES):
        out |= places[..., place, :] << (BITS * place)
    signed = ((out ^ 0x8000) - 0x8000).to(torch.int16)  # the sign of 16 bits
    spread = scale.repeat_interleave(features // LANES // scale.shape[2], 2)
    return Packed(signed.flatten(-2), _tiled(spread, LINE // LANES, 0), outputs, features)


def _tiled(rows: torch.Tensor, line: int, filler: int) -> torch.Tensor:
    """[E, out, in] as [E, out / 16, in / line, 16, line], contiguous."""
    missing = (0, -rows.shape[2] % line, 0, -rows.shape[1] % ROWS)
    padded = functional.pad(rows, missing, value=filler)
    count, outputs, features = padded.shape
    tiled = padded.view(count, outputs // ROWS, ROWS, features // line, line)
    return tiled.transpose(2, 3).contiguous()


def _shifts(words: torch.Tensor, places: int) -> torch.Tensor:
    return BITS * torch.arange(places, dtype=words.dtype, device=words.device)
