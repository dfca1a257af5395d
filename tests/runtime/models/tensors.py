"""A checkpoint in memory: the tests' third implementation of `Weights`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from ddtree.models.weights import Shapes


class Tensors:
    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.path = Path("memory")
        self.tensors = dict(tensors)

    @property
    def shapes(self) -> Shapes:
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def read(self, name: str) -> torch.Tensor:
        return self.tensors[name]


def random_tensors(shapes: Shapes, seed: int) -> Tensors:
    """Norms near one, matrices small enough to keep activations near one."""
    generator = torch.Generator().manual_seed(seed)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        noise = torch.randn(shape, generator=generator)
        return 1 + noise / 4 if len(shape) == 1 else noise * (1.5 / shape[1] ** 0.5)

    return Tensors({name: tensor(shape) for name, shape in shapes.items()})
