"""Boxes whose GPUs say what lies in `recorded/`."""

from __future__ import annotations

from pathlib import Path

from ddops.facts import cuda, fabric, gpu, gpu_memory, gpu_state, pci, topology
from ddops.host.scripted import Scripted

_RECORDED = Path(__file__).with_name("recorded")
_COMPILER = "Cuda compilation tools, release 13.0, V13.0.88\n"


def recorded(machine: str, name: str) -> str:
    """Empty for a tool that says nothing there."""
    path = _RECORDED / machine / name
    return path.read_text("utf-8") if path.exists() else ""


def box(machine: str, *, on_bus: int = 8, nodes: int = 8) -> Scripted:
    return Scripted(
        {
            gpu.COMMAND.line: recorded(machine, "gpus.csv"),
            gpu_state.COMMAND.line: recorded(machine, "report.txt"),
            topology.COMMAND.line: recorded(machine, "topology.txt"),
            fabric.COMMAND.line: recorded(machine, "fabric.txt"),
            cuda.COMMAND.line: recorded(machine, "compilers.txt") or _COMPILER,
            pci.COMMAND.line: recorded(machine, "pci.txt") or "bus\n" * on_bus + "node\n" * nodes,
            gpu_memory.COMMAND.line: recorded(machine, "memory.txt"),
        }
    )
