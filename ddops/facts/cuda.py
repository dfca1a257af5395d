"""CUDA: the newest that the driver runs, and the compilers that are installed."""

from __future__ import annotations

import re

from ddops.spec.command import Run
from ddops.spec.hardware import Cuda

_SCRIPT = r"""
for compiler in /usr/local/cuda*/bin/nvcc "$(command -v nvcc)"; do
  [ -x "$compiler" ] && "$compiler" --version
done
true
"""
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look for CUDA compilers")


def parse(report: str, compilers: str) -> Cuda:
    """`report` is the driver's full one, as `gpu_state` asks for it."""
    newest = re.search(r"^CUDA Version\s*: (\d+\.\d+)", report, re.M)
    releases = re.findall(r"release (\d+\.\d+)", compilers)
    return Cuda(driver=newest[1] if newest else None, toolkits=tuple(dict.fromkeys(releases)))
