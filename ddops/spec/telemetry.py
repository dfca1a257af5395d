"""What was sampled on a box beside a measured window. Units are in the names.

`Head`, `Sample`, `End` are the lines of a file of samples, as `ddops/host/box_sample.py` writes
them; `Telemetry` is what a record keeps of them. Definitions: docs/telemetry.md.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ddops.spec.base import Word

_FINITE = ConfigDict(allow_inf_nan=False)

Number = float | None
GpuRow = tuple[int, Number, Number, Number, Number, Number, Number, int | None, Number, Number]
"""index, W, % with a kernel, % with memory traffic, MiB, MHz of SMs, MHz of memory, throttle
bits, degrees, mJ since the driver was loaded. None: not told."""

THROTTLES = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""The driver's bits that mean "slower than it could be"; the others are idleness and settings."""


class Head(Word):
    model_config = _FINITE

    t: float  # the box's monotonic clock
    wall: float  # seconds since 1970, at the same moment
    interval_s: float
    cores: int  # that the service may run on
    memory: int  # bytes
    source: Literal["nvml", "nvidia-smi"] | None
    gpus: tuple[tuple[int, str | None, Number], ...] = Field(max_length=64)
    """Index, name, power limit in W."""
    packages: tuple[tuple[str, int], ...] = Field(max_length=64)
    """Name, uJ at which the counter begins again."""
    why: dict[str, str]  # what could not be read, and the reason


class Sample(Word):
    """Of GPUs (`g`), of whose they are (`u`), or of the host (all the others)."""

    model_config = _FINITE

    t: float
    g: tuple[GpuRow, ...] | None = None
    u: tuple[int, ...] | None = None  # indices of GPUs that a process of the service runs on
    e: tuple[int, ...] | None = None  # uJ of each CPU package
    c: tuple[float, float] | None = None  # seconds of cores in use, and in all
    m: int | None = None  # bytes of memory in use
    p: tuple[float, int] | None = None  # of the service: seconds of CPU time, bytes of memory
    s: float | None = None  # seconds of CPU time of the sampler itself


class End(Word):
    model_config = _FINITE

    t: float
    wall: float
    end: Literal["stopped", "deadline", "abandoned"]


class Window(Word):
    """The measured window on the sampler's clock."""

    model_config = _FINITE

    opened: float
    length_s: float
    clock_error_s: float  # the two clocks may be so far apart from what was reckoned with


FaultKind = Literal[
    "no-samples", "not-bracketed", "gap", "missing-gpu", "counter-reset", "clock-step"
]


class Fault(Word):
    """Why no energy is told."""

    kind: FaultKind
    detail: str


class GpuUse(Word):
    """One GPU over the window. None: its driver does not tell."""

    index: int
    name: str | None
    limit_w: float | None
    mean_w: float | None  # trapezoids over the window
    peak_w: float | None
    energy_j: float | None  # mean_w x window; None where a fault forbids it
    counted_j: float | None  # by the driver's own counter, between the samples at the edges
    busy: float | None  # share of the time in which a kernel ran
    memory_busy: float | None  # share of the time in which memory was read or written
    memory_mib: float | None  # peak
    sm_mhz: float | None  # mean
    memory_mhz: float | None
    throttled: float | None  # share of the samples
    throttles: dict[str, float]  # the same by reason
    peak_c: float | None


class HostUse(Word):
    cores: int
    busy_cores: float | None  # mean, of all processes
    service_cores: float | None
    sampler_cores: float | None
    memory: int  # bytes
    memory_peak: int | None
    service_memory_peak: int | None
    energy_j: float | None  # of all CPU packages


class Curve(Word):
    """Means over equal parts of the window, to be drawn."""

    step_s: float
    watts: Annotated[tuple[Number, ...], Field(max_length=200)] = ()  # GPUs that serve
    package_watts: Annotated[tuple[Number, ...], Field(max_length=200)] = ()
    cores: Annotated[tuple[Number, ...], Field(max_length=200)] = ()  # of the service


class Telemetry(Word):
    window: Window | None
    interval_s: float | None
    source: Literal["nvml", "nvidia-smi"] | None
    gpus: tuple[GpuUse, ...]  # all of the box
    serving: tuple[int, ...]  # indices of those that the service is taken to run on
    serving_by: Literal["processes", "memory"] = "memory"  # by the driver's list, or by a guess
    host: HostUse | None
    energy_j: float | None  # of the GPUs that serve, else of the CPU packages
    j_per_token: float | None
    faults: tuple[Fault, ...]
    missing: dict[str, str]  # what could not be read, and the reason
    curve: Curve | None
    samples: str | None = None  # their file, seen from the folder of the run

    @property
    def energy_of(self) -> Literal["gpus", "packages"] | None:
        measured = self.host is not None and self.host.energy_j is not None
        return "gpus" if self.gpus else "packages" if measured else None

    @property
    def own(self) -> tuple[GpuUse, ...]:
        """The GPUs that serve."""
        return tuple(gpu for gpu in self.gpus if gpu.index in self.serving)
