"""The host's numbers to the device and back, without either waiting for the other."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ddtree.ops.to_host import to_host

Numbers = list[int] | list[float] | list[list[int]] | list[list[float]]


def upload(values: Numbers, device: torch.device) -> torch.Tensor:
    """Integers as int64, others as float32. A copy from pageable memory waits for the step."""
    news = torch.tensor(values)
    if device.type != "cuda":
        return news
    return news.pin_memory().to(device, non_blocking=True)


def on_host(words: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """Where a copy to `device` waits for nothing."""
    news = torch.from_numpy(words)
    return news.pin_memory() if device.type == "cuda" else news


@dataclass(frozen=True)
class Download:
    """A tensor on its way to the host."""

    values: torch.Tensor  # valid once landed
    landed: torch.cuda.Event | None

    def read(self) -> torch.Tensor:
        if self.landed is not None:
            self.landed.synchronize()
        return self.values


# Memory of the host that a kernel is yet to write to, of which torch knows nothing: a rank that
# reads none of its steps would have it given to its next upload, and overwritten there.
_under_way: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()


def download(values: torch.Tensor) -> Download:
    """Start the copy; on the host there is nothing to wait for."""
    if not values.is_cuda:
        return Download(values, None)
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    to_host(values.contiguous(), host)
    landed = torch.cuda.current_stream().record_event()
    while _under_way and _under_way[0][0].query():  # type: ignore[no-untyped-call]
        _under_way.popleft()
    _under_way.append((landed, host))
    return Download(host, landed)
