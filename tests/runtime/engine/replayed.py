"""A stand-in for CUDA graphs: work that is done again, into memory that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch


class Replayed:
    """In place of a `torch.cuda.CUDAGraph`."""

    def __init__(self, graphs: Recorder, work: Callable[[], Any], made: Any) -> None:
        self._graphs, self._work, self._made = graphs, work, made

    def replay(self) -> None:
        self._graphs.spoil()
        self._graphs.replays += 1
        again = self._work()
        for mine, new in zip(tensors(self._made), tensors(again), strict=True):
            mine.copy_(new)


class Recorder:
    """In place of `engine.graphs.Graphs`."""

    def __init__(self) -> None:
        self.replays = 0
        self._made: list[torch.Tensor] = []

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        work()
        made = work()
        self._made += tensors(made)
        return Replayed(self, work, made), made

    def spoil(self) -> None:
        """Something else was replayed: what they made is gone."""
        for tensor in self._made:
            tensor.fill_(float("nan") if tensor.is_floating_point() else -1)


def tensors(made: Any) -> list[torch.Tensor]:
    """Those of a dataclass."""
    found = [getattr(made, field.name) for field in fields(made)]
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]
