"""CUDA graphs of work that is done again and again: one memory pool, one stream, largest first.

What a graph makes is read, or on its way to the host, before another one is replayed: they have
the same memory. Everything a graph reads was allocated before it was captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from ddtree.ops.close_gaps import close_gaps

_T = TypeVar("_T")


class Graphs:
    """Of one engine."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._recorded: list[torch.cuda.CUDAGraph] = []
        self._mark = torch.zeros(1, device="cuda")

    def record(self, work: Callable[[], _T]) -> tuple[torch.cuda.CUDAGraph, _T]:
        """A graph of `work`, and what each replay makes anew."""
        work()  # compiles kernels
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # other threads may speak to the device meanwhile: NCCL's watch over other ranks does
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            made = work()
        self._recorded.append(graph)
        self.close_gaps()
        return graph, made

    def close_gaps(self) -> None:
        """After what may have brought them back, before the next replay."""
        close_gaps(self._mark)

    def release(self) -> None:
        """Nothing is replayed any more. NCCL ends only when no graph has its collectives in it."""
        torch.cuda.synchronize()
        for graph in self._recorded:
            graph.reset()
        self._recorded.clear()
