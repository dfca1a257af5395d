"""Weights of the right shapes and no meaning, made on the device: for timing only."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch

from ddtree.models.weights import Shapes


class RandomWeights:
    """Satisfies `models.weights.Weights`. Equal names give equal tensors."""

    path = Path("random weights")

    def __init__(self, shapes: Shapes, dtype: torch.dtype, device: torch.device) -> None:
        self.shapes = shapes
        self._dtype, self._device = dtype, device

    def read(self, name: str) -> torch.Tensor:
        shape = self.shapes[name]
        if len(shape) == 1:
            return torch.ones(shape, dtype=self._dtype, device=self._device)
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
        noise = torch.randn(shape, generator=generator, dtype=self._dtype, device=self._device)
        return noise * 0.02
