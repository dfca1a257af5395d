"""`ddops inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ddops.cli.options import BoxNames, Json, Pin, Quiet, Verbose
from ddops.cli.output import Output, table
from ddops.cli.several import each, one, several, show
from ddops.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.spec.hardware import GpuState
    from ddops.spec.observed import Gpu, Surveyed

_ONE = "`ddops inspect BOX --pin SHA256:…` for each of them"


def inspect(
    boxes: BoxNames = None,
    pin: Pin = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Look at a box: machine, Python, GPUs, weights, port, service. Changes nothing.

    The key of a box behind SSH is recorded in inventories/known_hosts at first contact.

    \b
    Example:
      ddops inspect local --json
      ddops inspect b300-a b300-b
    """
    from ddops.flows.inspect import inspect as look
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    if names := several(boxes):
        if pin:
            raise UsageError("one fingerprint is no key of several boxes", hint=_ONE)
        show(out, each("inspect", names, (), out), _line)
    with opened(one(boxes), pin=pin) as site:
        seen = look(site)
    out.result(seen.model_dump(mode="json"), _draw(seen))


def _line(seen: Mapping[str, Any]) -> str:
    gpus = Counter(gpu["name"] for gpu in seen["gpus"])
    named = ", ".join(f"{count} x {name}" for name, count in gpus.items()) or "no GPU"
    return (
        f"{seen['system']['os']}, {named}, {seen['service']['state']}, {seen['health']['status']}"
    )


def _draw(seen: Surveyed) -> RenderableType:
    machine, python, service = seen.system, seen.python, seen.service
    gpus = [_gpu(one, state) for one, state in zip(seen.gpus, seen.hardware.states, strict=False)]
    stored = [f"{one.path}, {one.size / 1e9:.1f} GB" for one in seen.stock.weights]
    venvs = [f"{one.path}, Python {one.python}" for one in seen.stock.venvs]
    files = [f"{a.path}, {a.size / 1e6:.1f} MB" for a in seen.model.artefacts]
    holder = seen.port.holder
    rows = {
        "system": f"{machine.os}, {machine.kernel}, glibc {machine.glibc}, {machine.arch}",
        "processor": f"{machine.cores} x {machine.cpu} ({' '.join(machine.cpu_flags) or 'plain'})",
        "memory": f"{machine.memory_available / 1e9:.1f} of {machine.memory / 1e9:.1f} GB free",
        "disk": f"{machine.disk_free / 1e9:.1f} GB free for weights",
        "GPUs": "\n".join(gpus) or "none",
        "joined": seen.hardware.topology.joined,
        "fabric": f"{_fabric(seen)}, manager {seen.hardware.fabric_manager}",
        "CUDA": seen.hardware.cuda.driver or "none",
        "Python": f"{python.version}, {python.executable}",
        "engine": f"torch {python.torch}" if python.engine else "not installed",
        "lacks": ", ".join(python.missing) or "nothing",
        "tools": " ".join(seen.tools) or "none",
        "venvs": "\n".join(venvs) or "none",
        "weights": "\n".join(files) or "not on the box",
        "stored": "\n".join(stored) or "nothing",
        "port": f"{seen.port.port}, " + (f"held by {holder.program}" if holder else "free"),
        "service": f"{service.state}, run by {service.kind}",
        "failed units": " ".join(seen.units.failed) or "none",
        "health": seen.health.status,
    }
    return table(("subject", "seen"), list(rows.items()))


def _gpu(gpu: Gpu, state: GpuState) -> str:
    held = f" ({state.used_mib} in use)" if state.used_mib else ""
    power = f", {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else ""
    what = f"{gpu.name}, {gpu.memory_mib} MiB{held}{power}"
    switches = f"ECC {_switch(state.ecc)}, MIG {_switch(state.mig)}"
    return f"{gpu.index}: {what}, {switches}, driver {gpu.driver}"


def _switch(state: bool | None) -> str:
    return "unknown" if state is None else "on" if state else "off"


def _fabric(seen: Surveyed) -> str:
    joined = {one.fabric.state if one.fabric else "none" for one in seen.hardware.states}
    return ", ".join(sorted(joined)) or "none"
