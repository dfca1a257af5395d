"""NVIDIA GPUs, as the driver's own tool tells them. None is normal."""

from __future__ import annotations

import csv
from io import StringIO

from ddops.spec.command import Run
from ddops.spec.observed import Gpu

COMMAND = Run(
    argv=(
        "nvidia-smi",
        "--query-gpu=index,name,memory.total,driver_version,compute_cap,power.limit",
        "--format=csv,noheader,nounits",
    ),
    why="look for GPUs",
    timeout_s=60.0,
)


def parse(text: str) -> tuple[Gpu, ...]:
    """Text that is not a table of six columns (no driver, no tool) means no GPU."""
    rows = csv.reader(StringIO(text), skipinitialspace=True)
    return tuple(_gpu(row) for row in rows if len(row) == 6 and row[0].isdigit())


def _gpu(row: list[str]) -> Gpu:
    index, name, memory, driver, capability, power = row
    return Gpu(
        index=int(index),
        name=name,
        memory_mib=int(float(memory)),
        driver=driver,
        compute_capability=capability,
        power_limit_w=float(power) if power.replace(".", "", 1).isdigit() else None,
    )
