"""Kernels that were compiled at the source travel too, to a box where they are valid.

The environment is the same at both ends, so its versions are; GPUs and driver must be.
"""

from __future__ import annotations

from pathlib import Path

from ddops.facts import gpu
from ddops.host import box_cache
from ddops.host.base import Host
from ddops.host.stream import End, Pipe

_CACHE = Path(box_cache.__file__).read_text("utf-8")


def bring(source: End, old: str, target: End, new: str) -> str | None:
    """From folder `old` to folder `new`. A cache only saves time: what goes wrong is only told."""
    here, there = _gpus(source.host), _gpus(target.host)
    if here != there:
        return f"compiled kernels stay behind: they are for {_words(here)}, not {_words(there)}"
    pipe = Pipe(source.line(_CACHE, "give", old), target.line(_CACHE, "take", new, old))
    try:
        fault = pipe.follow(lambda line: None)
    finally:
        pipe.close()
    return f"compiled kernels did not come: {fault}" if fault else None


def _gpus(host: Host) -> frozenset[tuple[str, str, str]]:
    seen = gpu.parse(host.run(gpu.COMMAND).stdout)
    return frozenset((one.name, one.compute_capability, one.driver) for one in seen)


def _words(gpus: frozenset[tuple[str, str, str]]) -> str:
    return ", ".join(f"{name} with driver {driver}" for name, _, driver in sorted(gpus)) or "no GPU"
