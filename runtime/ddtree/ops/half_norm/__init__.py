"""A norm between two products, half done by each of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional

BLOCK = 16  # features of which squares are summed together: no tile has less


class Half(NamedTuple):
    """A norm of which dividing a token by the root of its mean square is left to do.

    A product can do it to what it makes of a token as well as to its x.
    """

    x: torch.Tensor  # [..., H], h times the norm's weight
    squares: torch.Tensor  # [..., blocks] float32, sums of h^2
    eps: float

    @property
    def scale(self) -> torch.Tensor:
        """[..., 1] float32, what is left to multiply by."""
        mean = self.squares.sum(-1, keepdim=True) / self.x.shape[-1]
        return torch.rsqrt(mean + self.eps)

    def rows(self) -> Half:
        return Half(rows(self.x), rows(self.squares), self.eps)


class Begun(NamedTuple):
    """What a product fills that begins the norm behind it."""

    h: torch.Tensor  # [M, N]
    half: Half
    weight: torch.Tensor  # [N], the norm's


def rows(x: torch.Tensor) -> torch.Tensor:
    """[M, K]"""
    return x.reshape(-1, x.shape[-1]).contiguous()


def begin(h: torch.Tensor, weight: torch.Tensor, eps: float) -> Half:
    """The first half in torch."""
    wide = h.float()
    padded = functional.pad(wide, (0, -h.shape[-1] % BLOCK))
    squares = padded.view(*h.shape[:-1], -1, BLOCK).square().sum(-1)
    return Half((wide * weight.float()).to(h.dtype), squares, eps)
