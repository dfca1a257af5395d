"""`ddops inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddops.cli.options import BoxName, Json, Pin, Quiet, Verbose
from ddops.cli.output import Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddops.spec.observed import Observed


def inspect(
    box: BoxName = "local",
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
    """
    from ddops.flows.inspect import inspect as look
    from ddops.flows.site import opened

    out = Output(json=json, quiet=quiet, verbose=verbose)
    with opened(box, pin=pin) as site:
        seen = look(site)
    out.result(seen.model_dump(mode="json"), _draw(seen))


def _draw(seen: Observed) -> RenderableType:
    machine, python, service = seen.system, seen.python, seen.service
    gpus = [f"{g.index}: {g.name}, {g.memory_mib} MiB, driver {g.driver}" for g in seen.gpus]
    files = [f"{a.path}, {a.size / 1e6:.1f} MB" for a in seen.model.artefacts]
    holder = seen.port.holder
    rows = {
        "system": f"{machine.os}, {machine.kernel}, {machine.arch}",
        "processor": f"{machine.cores} x {machine.cpu} ({' '.join(machine.cpu_flags) or 'plain'})",
        "memory": f"{machine.memory_available / 1e9:.1f} of {machine.memory / 1e9:.1f} GB free",
        "disk": f"{machine.disk_free / 1e9:.1f} GB free for weights",
        "GPUs": "\n".join(gpus) or "none",
        "Python": f"{python.version}, {python.executable}",
        "engine": f"torch {python.torch}" if python.engine else "not installed",
        "lacks": ", ".join(python.missing) or "nothing",
        "weights": "\n".join(files) or "not on the box",
        "port": f"{seen.port.port}, " + (f"held by {holder.program}" if holder else "free"),
        "service": f"{service.state}, run by {service.kind}",
        "health": seen.health.status,
    }
    return table(("subject", "seen"), list(rows.items()))
