"""Weights of the right shapes and no meaning, made on the device: for timing only."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch

from ddtree.models.weights import CORRECTION, Int4, Part, Shapes
from ddtree.ops.experts.packed import LANES, PER_WORD


class RandomWeights:
    """Satisfies `models.weights.Weights`. Equal names give equal tensors.

    `int4`: routed experts are words, with one scale a group of 32 columns.
    """

    path = Path("random weights")

    def __init__(
        self, shapes: Shapes, dtype: torch.dtype, device: torch.device, *, int4: bool = False
    ) -> None:
        self.shapes = shapes
        self._dtype, self._device, self._int4 = dtype, device, int4

    def read(self, name: str) -> torch.Tensor:
        shape = self.shapes[name]
        if len(shape) == 1:
            value = 0.0 if name.endswith(CORRECTION) else 1.0
            return torch.full(shape, value, dtype=self._dtype, device=self._device)
        noise = torch.randn(
            shape, generator=self._generator(name), dtype=self._dtype, device=self._device
        )
        return noise * 0.02

    def read_int4(self, name: str, part: Part | None) -> Int4 | None:
        """Numbers of all sixteen kinds, whose spread is about that of `read`."""
        if not self._int4 or ".experts." not in name:
            return None
        assert part is None, "shapes are one rank's"
        rows, columns = self.shapes[name]
        words = torch.randint(
            -(2**31),
            2**31,
            (rows, columns // PER_WORD),
            generator=self._generator(name),
            dtype=torch.int32,
            device=self._device,
        )
        sizes = (rows, columns // LANES)
        return Int4(words, torch.full(sizes, 0.02 / 4.6, dtype=self._dtype, device=self._device))

    def _generator(self, name: str) -> torch.Generator:
        return torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
