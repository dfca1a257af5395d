"""The mark of tests that run kernels on the CPU, and how a kernel is held against its reference."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

interpreted = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are compiled in this session"
)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A buffer in which whatever is read before it was written is NaN."""
    return torch.full(shape, float("nan"), dtype=dtype)


@contextmanager
def poison() -> Iterator[None]:
    """Whatever is allocated inside is NaN until it is written, scratch of the ops too."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to a few roundings of the expected dtype."""
    loose = expected.dtype == torch.float16
    atol, rtol = (3e-3, 3e-3) if loose else (5e-5, 1e-5)
    torch.testing.assert_close(got, expected, atol=atol, rtol=rtol, equal_nan=True)
