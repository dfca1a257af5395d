"""Which implementation an op runs: the kernel on CUDA, the torch reference elsewhere.

Kernels are imported on first use, so that a machine without Triton imports and runs every op.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch

_forced: list[bool] = []


def uses_kernel(tensor: torch.Tensor) -> bool:
    """True on CUDA, and on any device inside `kernels_everywhere`."""
    return tensor.is_cuda or bool(_forced)


@contextmanager
def kernels_everywhere() -> Iterator[None]:
    """For tests: run the kernels on the CPU, in Triton's interpreter (TRITON_INTERPRET=1)."""
    _forced.append(True)
    try:
        yield
    finally:
        _forced.pop()


@dataclass(frozen=True)
class Limits:
    """What a launch is cut for. No cut changes a bit of a result."""

    shared: int  # bytes of shared memory a program may have
    multiprocessors: int
    one_rounding: bool  # all its matrix instructions round a sum alike: measured, see ops/linear


_pretended: list[Limits] = []


def limits(device: torch.device) -> Limits:
    """The device's own, or those of `pretending`."""
    return _pretended[-1] if _pretended else _measured(device)


@cache
def _measured(device: torch.device) -> Limits:
    if device.type != "cuda":
        return Limits(shared=99 << 10, multiprocessors=1, one_rounding=False)
    found = torch.cuda.get_device_properties(device)
    large = (found.major, found.minor) == (8, 0) or found.major in (9, 10)
    shared = (163 << 10 if found.major == 8 else 227 << 10) if large else 99 << 10
    return Limits(shared, found.multi_processor_count, one_rounding=found.major == 9)


@contextmanager
def pretending(device: Limits) -> Iterator[None]:
    """For compiling ahead of time: cut launches for a device that is not here."""
    _pretended.append(device)
    try:
        yield
    finally:
        _pretended.pop()
