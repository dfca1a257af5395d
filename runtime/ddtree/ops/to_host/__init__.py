"""The device's numbers into the host's memory, by a kernel and not by a copy engine.

A copy between two replays leaves gaps between all kernels of the second one, and `close_gaps`
behind it does not help; behind a kernel it does. Tokens per second of one stream, SmolLM2 on an
H200, a copy / a kernel / a kernel and `close_gaps`, each twice in one engine: autoregressive 1507,
1510 / 1520, 1523 / 1709, 1713; budget 63 4848, 4828 / 4877, 4857 / 5394, 5367.
"""

from __future__ import annotations

import torch

BLOCK = 512


def to_host(values: torch.Tensor, host: torch.Tensor) -> None:
    """Copy `values`, contiguous, to `host`, pinned and alike, in the order of the stream.

    The caller keeps `host` until then, for torch knows of no kernel that writes there.
    """
    from ddtree.ops.to_host import kernel

    count = values.numel()
    kernel.copy[(-(-count // BLOCK),)](values, host, count, BLOCK=BLOCK, num_warps=4)
