"""Weights of the right shapes and no meaning, made on the device: for timing only."""

from __future__ import annotations

import zlib
from math import prod
from pathlib import Path

import torch

from ddtree.models.packed import dequantise
from ddtree.models.weights import CORRECTION, Int4, Part, Shapes
from ddtree.ops.experts.packed import BITS, LANES, OFFSET, PER_WORD

EXPERT = ".experts."
SPARE = 1 << 20  # words that INT4 tensors of one size may begin at
SPREAD = 0.02  # standard deviation of a matrix's numbers
SPREAD_INT4 = 4.32  # of -7 .. 7


class RandomWeights:
    """Satisfies `models.weights.Weights`. Equal names give equal tensors.

    `int4`: routed experts are words, with one scale a group of 32 columns, or what these unpack to.
    There are tens of thousands of them in a large mixture, so they are views of one draw.
    """

    path = Path("random weights")

    def __init__(
        self, shapes: Shapes, dtype: torch.dtype, device: torch.device, *, int4: bool = False
    ) -> None:
        self.shapes = shapes
        self._dtype, self._device = dtype, device
        sizes = [prod(shape) // PER_WORD for name, shape in shapes.items() if EXPERT in name]
        self._words = self._drawn(max(sizes) + SPARE) if int4 and sizes else None
        self._scale = torch.full((), SPREAD / SPREAD_INT4, dtype=dtype, device=device)

    def read(self, name: str) -> torch.Tensor:
        shape = self.shapes[name]
        if len(shape) == 1:
            value = 0.0 if name.endswith(CORRECTION) else 1.0
            return torch.full(shape, value, dtype=self._dtype, device=self._device)
        stored = self.read_int4(name, None)
        if stored is not None:
            return dequantise(*stored)
        noise = torch.randn(
            shape, generator=self._generator(name), dtype=self._dtype, device=self._device
        )
        return noise * SPREAD

    def read_int4(self, name: str, part: Part | None) -> Int4 | None:
        """Numbers of the spread that other matrices have."""
        if self._words is None or EXPERT not in name:
            return None
        assert part is None, "shapes are one rank's"
        rows, columns = self.shapes[name]
        begin = zlib.crc32(name.encode()) % SPARE
        words = self._words[begin : begin + rows * columns // PER_WORD]
        return Int4(words.view(rows, -1), self._scale.expand(rows, columns // LANES))

    def _drawn(self, count: int) -> torch.Tensor:
        """Words [count] of numbers -7 .. 7, whose mean is zero.

        With -8 it would be -0.5 for all experts, and grow from layer to layer into a part that all
        tokens have in common: in deep ones of Kimi-K2.6's sizes 9 nodes would choose as one.
        """
        numbers = torch.randint(
            1,
            2 * OFFSET,
            (2, count * PER_WORD // 2),
            generator=self._generator(""),
            dtype=torch.uint8,
            device=self._device,
        )
        return (numbers[0] | numbers[1] << BITS).view(torch.int32)

    def _generator(self, name: str) -> torch.Generator:
        return torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
