"""Programmatic dependent launch: a kernel starts while the one before it still runs.

Not an op: how ops are launched. Every kernel calls `start` before it reads what another wrote, so
that each waits for all before it; what lies before `start` may touch weights only.
"""

from __future__ import annotations

import torch

from ddtree.ops.backend import limits


def overlapped(tensor: torch.Tensor) -> dict[str, bool]:
    """Arguments of a launch: the kernel's constant and Triton's option. Needs Hopper or later."""
    if limits(tensor.device).overlap:
        return {"OVERLAP": True, "launch_pdl": True}
    return {"OVERLAP": False}
