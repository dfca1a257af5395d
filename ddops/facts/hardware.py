"""The GPUs of a box and how they are doing, in one value. A box without any is asked little."""

from __future__ import annotations

from ddops.facts import cuda, fabric, gpu, gpu_state, pci, topology
from ddops.host.base import Host
from ddops.spec.hardware import Hardware
from ddops.spec.observed import Gpu

_NO_PROGRAM = 127


def look(host: Host) -> tuple[tuple[Gpu, ...], Hardware]:
    listed, kernel = host.run(gpu.COMMAND), pci.parse(host.run(pci.COMMAND).stdout)
    gpus = gpu.parse(listed.stdout)
    said = [
        host.run(command).stdout if gpus else ""
        for command in (gpu_state.COMMAND, cuda.COMMAND, topology.COMMAND, fabric.COMMAND)
    ]
    report, compilers, matrix, manager = said
    complaint = (listed.stdout or listed.stderr).strip()
    if listed.code == _NO_PROGRAM:
        complaint = "nvidia-smi is not installed" if kernel.on_bus else ""
    return gpus, Hardware(
        on_bus=kernel.on_bus,
        nodes=kernel.nodes,
        complaint=None if gpus else complaint or None,
        states=gpu_state.parse(report),
        topology=topology.parse(matrix),
        fabric_manager=fabric.parse(manager),
        cuda=cuda.parse(report, compilers),
    )
