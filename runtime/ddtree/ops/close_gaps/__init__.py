"""A launch that lets the kernels of replayed graphs follow each other without a gap.

From some capture on (the fourth, of whatever) a driver (580, H200) leaves 0.3 us between any two
kernels of all graphs, until the first programmatic launch outside of one; the next capture may
bring the gap back. us of a replayed step with and without, in one process: SmolLM2 autoregressive
772 and 678, budget 63 1083 and 968, Qwen3-8B's 12 layers 1783 and 1739, K2.6's 7 800 and 761. Why
is the driver's secret; carve-outs, streams, pools, flags are not it (docs/log.md). Between replays
a kernel that is loaded brings it back too, and so does what a step says to the host (`to_host`).
"""

from __future__ import annotations

import torch

HOPPER = (9, 0)  # from here on a launch can be programmatic


def close_gaps(mark: torch.Tensor) -> None:
    """Launch one kernel, which zeroes `mark` [1]: after each capture and each step. CUDA only."""
    if mark.is_cuda and torch.cuda.get_device_capability(mark.device) < HOPPER:
        return
    from ddtree.ops.close_gaps import kernel

    kernel.zero[(1,)](mark, num_warps=1, launch_pdl=True)
