"""NVIDIA GPUs as the kernel sees them, with or without a driver."""

from __future__ import annotations

from dataclasses import dataclass

from ddops.spec.command import Run

# 0x0300 and 0x0302 are display controllers; the vendor's sound, USB and switch devices are others.
_SCRIPT = r"""
for device in /sys/bus/pci/devices/*; do
  { read -r vendor <"$device/vendor" && read -r class <"$device/class"; } 2>/dev/null || continue
  case $vendor:$class in 0x10de:0x0300*|0x10de:0x0302*) echo bus;; esac
done
for node in /dev/nvidia[0-9]*; do [ -e "$node" ] && echo node; done
true
"""
COMMAND = Run(argv=("sh", "-c", _SCRIPT), why="look for GPUs on the PCI bus")


@dataclass(frozen=True)
class Found:
    on_bus: int
    nodes: int  # device files: a container has only those of the GPUs that it was given


def parse(text: str) -> Found:
    words = text.split()
    return Found(on_bus=words.count("bus"), nodes=words.count("node"))
