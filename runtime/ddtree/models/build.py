"""Layers are built by a few threads at once, each reading what it needs; the log says how far."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

READERS = 4  # threads; a disk that is waited for serves others meanwhile
TENTHS = 10

log = logging.getLogger(__name__)
Part = TypeVar("Part")


def build_all(build: Callable[[int], Part], count: int, device: torch.device) -> list[Part]:
    """`build(0)` .. `build(count - 1)` in order, on `device`.

    Raises what the first that fails raises.
    """
    began = time.monotonic()
    readers = min(READERS, os.cpu_count() or 1)
    built: list[Part] = []
    with ThreadPoolExecutor(readers, "ddtree-read", _use, (device,)) as pool:
        try:
            for part in pool.map(build, range(count)):
                built.append(part)
                if len(built) * TENTHS // count > (len(built) - 1) * TENTHS // count:
                    fields = {
                        "layers": len(built),
                        "of": count,
                        "seconds": time.monotonic() - began,
                    }
                    log.info("loading", extra={"fields": fields})
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return built


def _use(device: torch.device) -> None:
    """A thread begins on the first CUDA device, and would take memory there."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
