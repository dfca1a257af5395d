"""Layers are built by a few threads at once, each reading what it needs; the log says how far."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

READERS = 4  # threads; a disk that is waited for serves others meanwhile
TENTHS = 10

log = logging.getLogger(__name__)
Part = TypeVar("Part")


def build_all(build: Callable[[int], Part], count: int) -> list[Part]:
    """`build(0)` .. `build(count - 1)` in order. Raises what the first that fails raises."""
    began = time.monotonic()
    readers = min(READERS, os.cpu_count() or 1)
    built: list[Part] = []
    with ThreadPoolExecutor(readers, thread_name_prefix="ddtree-read") as pool:
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
