"""Work on many files, on several cores where that pays for starting them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final, TypeVar

_A = TypeVar("_A")
_B = TypeVar("_B")
_WORTH: Final = 64 << 20  # bytes: about a second's work
_MOST: Final = 4  # each may need the memory that one hostile record takes


def mapped(work: Callable[[_A], _B], each: Sequence[_A], size: int) -> Iterator[_B]:
    """`work` of `each`, in its order; `size` is of all of it, in bytes."""
    if size < _WORTH or len(each) < 2:
        yield from map(work, each)
        return
    workers = min(_MOST, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, each)
