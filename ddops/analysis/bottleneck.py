"""What limits a decode, the reason, and what would have made it surer. Pure.

A GPU that is "100 % busy" runs some kernel at every moment; that alone says neither that it
calculates nor that it waits for memory. So what bytes, arithmetic and links would take at their
peak rates is held against the step first, and utilisation and power speak where that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from ddops.spec.bottleneck import Thresholds
from ddops.spec.load import parse

Kind = Literal["memory", "compute", "interconnect", "latency", "host", "idle", "unknown"]

LABELS: Final[Mapping[Kind, str]] = {
    "memory": "HBM-bound",
    "compute": "compute-bound",
    "interconnect": "interconnect-bound",
    "latency": "latency-bound",  # short kernels, each of which waits for the one before
    "host": "host-bound",
    "idle": "idle",
    "unknown": "cannot say",
}
_CAUSES: Final[Mapping[Kind, str]] = {
    "memory": "bytes",
    "compute": "arithmetic",
    "interconnect": "links",
}


@dataclass(frozen=True)
class Signs:
    """What was seen of one cell. None: not known. Times are of one target step on one GPU."""

    gpus: int  # that serve; 0: it runs on the CPU
    busy: float | None = None  # share of the time with a kernel, mean of the GPUs
    power: float | None = None  # mean power over the limit
    step_s: float | None = None
    memory_s: float | None = None  # its bytes at peak bandwidth
    compute_s: float | None = None  # its operations at the peak rate
    interconnect_s: float | None = None  # its all-reduces at the best latency; 0 for one GPU
    step_bytes: float | None = None
    cores: int | None = None  # that the service may run on
    service_cores: float | None = None  # that its processes took
    busy_cores: float | None = None  # that all processes of the box took


@dataclass(frozen=True)
class Bottleneck:
    kind: Kind
    why: str
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return LABELS[self.kind]


@cache
def thresholds() -> Thresholds:
    text = (files("ddops.analysis") / "bottleneck.yaml").read_text("utf-8")
    return parse(text, Thresholds, "ddops/analysis/bottleneck.yaml")


def judge(signs: Signs) -> Bottleneck:
    if not signs.gpus:
        return _on_cpu(signs)
    shares = _shares(signs)
    largest = max(shares, key=lambda kind: shares[kind], default=None)
    missing = _missing(signs)
    if largest is not None and shares[largest] >= thresholds().share.value:
        return Bottleneck(largest, f"At peak rates a step is {_told(shares)}.", missing)
    if signs.busy is None:
        return Bottleneck("unknown", "How long the GPUs ran any kernel is not known.", missing)
    kernels = signs.busy - max(shares.values()) if shares else 0.0  # what no peak rate explains
    if signs.busy < thresholds().busy.value and kernels < 1 - signs.busy:
        return _waiting(signs, signs.busy, missing)
    return _busy(signs, shares, missing)


def _shares(signs: Signs) -> dict[Kind, float]:
    """Of the step, by cause. Empty where the bytes are not known: they are the first suspect."""
    if not signs.step_s or signs.memory_s is None:
        return {}
    times: dict[Kind, float | None] = {
        "memory": signs.memory_s,
        "compute": signs.compute_s,
        "interconnect": signs.interconnect_s,
    }
    return {kind: time / signs.step_s for kind, time in times.items() if time is not None}


def _told(shares: Mapping[Kind, float]) -> str:
    """`46% bytes, 8% arithmetic, 5% links`, the largest first."""
    ordered = sorted(shares, key=lambda kind: -shares[kind])
    return ", ".join(f"{shares[kind]:.0%} {_CAUSES[kind]}" for kind in ordered if shares[kind])


def _missing(signs: Signs) -> tuple[str, ...]:
    names = {
        "the GPUs' utilisation": signs.busy,
        "their power and its limit": signs.power,
        "the time of a step": signs.step_s,
        "the bytes of a step, or the GPU's bandwidth": signs.memory_s,
        "its arithmetic, or the GPU's rate": signs.compute_s,
        "what its all-reduces take": signs.interconnect_s,
        "the CPU time of the service": signs.service_cores,
    }
    return tuple(name for name, value in names.items() if value is None)


def _waiting(signs: Signs, busy: float, missing: tuple[str, ...]) -> Bottleneck:
    """No kernel runs at times: before the GPU there is something slower, or nothing at all."""
    seen = f"No kernel runs {1 - busy:.0%} of the time"
    if signs.service_cores is None:
        why = f"{seen}; whether the host works meanwhile is not known."
        return Bottleneck("unknown", why, missing)
    if signs.service_cores >= thresholds().core.value:
        why = f"{seen}, while the service takes {signs.service_cores:.1f} cores: the GPU waits."
        return Bottleneck("host", why, missing)
    why = f"{seen}, and the service takes {signs.service_cores:.1f} cores: it waits to be asked."
    return Bottleneck("idle", why, missing)


def _busy(signs: Signs, shares: Mapping[Kind, float], missing: tuple[str, ...]) -> Bottleneck:
    """A kernel always runs, and no peak rate explains the step, or none is known."""
    drawn = f" at {signs.power:.0%} of the power limit" if signs.power is not None else ""
    seen = f"A kernel runs {signs.busy:.0%} of the time{drawn}"
    much = signs.power is not None and signs.power >= thresholds().much_power.value
    if shares and not much:
        why = f"{seen}, but at peak rates a step is only {_told(shares)}: short kernels in a row."
        return Bottleneck("latency", why, missing)
    if shares:
        why = f"{seen}, yet at peak rates a step is only {_told(shares)}."
        return Bottleneck("unknown", why, missing)
    if much:
        return Bottleneck("compute", f"{seen}: only arithmetic draws so much.", missing)
    if signs.power is not None and signs.power < thresholds().little_power.value:
        why = (
            f"{seen}: busy without arithmetic, as a decode is that waits for memory. "
            "Short kernels in a row, or all-reduces, would look the same."
        )
        return Bottleneck("memory", why, missing)
    return Bottleneck("unknown", f"{seen}: that fits more than one cause.", missing)


def _on_cpu(signs: Signs) -> Bottleneck:
    """Its cores are the limit or are not. What they wait for, only their own counters tell."""
    if signs.service_cores is None or not signs.cores:
        return Bottleneck("unknown", "It runs on the CPU.", ("the CPU time of the service",))
    counters = ("whether the cores calculate or wait for memory: their counters would tell",)
    seen = f"The service takes {signs.service_cores:.1f} of {signs.cores} cores"
    if signs.service_cores >= thresholds().all_cores.value * signs.cores:
        return Bottleneck("host", f"{seen}: the CPU is the limit{_rate(signs)}.", counters)
    others = max(0.0, (signs.busy_cores or 0.0) - signs.service_cores)
    if signs.service_cores + others >= thresholds().all_cores.value * signs.cores:
        why = f"{seen}, others {others:.1f}: the CPU is the limit, and is shared."
        return Bottleneck("host", why, counters)
    if signs.service_cores >= thresholds().core.value:
        why = f"{seen}: its threads do not fill them{_rate(signs)}."
        return Bottleneck("host", why, counters)
    return Bottleneck("idle", f"{seen}: it waits to be asked, or for something else than the CPU.")


def _rate(signs: Signs) -> str:
    if not signs.step_bytes or not signs.step_s:
        return ""
    return f"; it reads {signs.step_bytes / signs.step_s / 1e9:.1f} GB/s at least"
