"""How the GPUs of a box are doing, and how they are joined. What they are is `observed.Gpu`."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

Joined = Literal["alone", "nvlink", "pcie", "mixed"]
ManagerState = Literal["absent", "running", "stopped", "failed"]
Remapping = Literal["none", "pending", "failed"]


class Fabric(Word):
    """Whether a GPU has joined the NVSwitch fabric. Only then may NVLS be switched on."""

    state: str  # as the driver says it, in small letters: not started, in progress, completed
    status: str | None  # of a completed registration: success, or what went wrong
    healthy: bool | None  # None: this driver does not tell

    @property
    def ready(self) -> bool:
        return (self.state, self.status) == ("completed", "success") and self.healthy is not False


class GpuState(Word):
    """None: this GPU or its driver does not tell."""

    bus: str  # its place on the PCI bus
    ecc: bool | None  # error correction is on
    uncorrected: int | None  # memory errors beyond correction since the driver was loaded
    remapping: Remapping | None  # of memory rows that went bad; `pending`: until the next reset
    recovery: str | None  # what the driver asks for to heal it: reset, reboot; None: nothing
    mig: bool | None  # split into instances
    fabric: Fabric | None  # None: it belongs to no fabric
    used_mib: int | None = None  # that programs hold, whoever they are


class Topology(Word):
    """Links between GPUs as the driver names them: NV18, PIX, PXB, PHB, NODE, SYS."""

    links: tuple[tuple[str, ...], ...]  # [GPU, GPU], X on the diagonal

    @property
    def joined(self) -> Joined:
        pairs = {
            link.startswith("NV")
            for i, row in enumerate(self.links)
            for j, link in enumerate(row)
            if i != j
        }
        if not pairs:
            return "alone"
        return "mixed" if len(pairs) == 2 else "nvlink" if True in pairs else "pcie"


class Cuda(Word):
    driver: str | None  # the newest CUDA that the driver runs, as `13.0`
    toolkits: tuple[str, ...]  # of the compilers that are installed


class Hardware(Word):
    on_bus: int  # NVIDIA GPUs on the PCI bus, whether their driver answers or not
    nodes: int  # GPUs that this system was given: in a container fewer than on the bus
    complaint: str | None  # of the driver's own tool, when it found no GPU
    states: tuple[GpuState, ...]  # in the order of `Observed.gpus`
    topology: Topology
    fabric_manager: ManagerState
    cuda: Cuda
