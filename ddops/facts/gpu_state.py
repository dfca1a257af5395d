"""How each GPU is doing: ECC, bad memory, MIG, its place in the NVSwitch fabric.

The full report is asked for, as text: an older driver leaves out lines that it does not know, while
its query by column names refuses the whole question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddops.spec.command import Run
from ddops.spec.hardware import Fabric, GpuState, Remapping

COMMAND = Run(argv=("nvidia-smi", "-q"), why="look how the GPUs are doing", timeout_s=60.0)

_NOT_TOLD = ("", "none", "n/a", "[n/a]", "not supported", "unknown error")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]+:[0-9A-Fa-f:.]+)$", re.M)
_FAILED = ("Remapped Rows/Remapping Failure Occurred", "ECC Errors/Unrepairable Memory")
_PENDING = ("Remapped Rows/Pending", "ECC Errors/Channel Repair Pending")
_LINE = re.compile(r"^( *)(.+?)(?:\s+: ?(.*))?$")


def parse(text: str) -> tuple[GpuState, ...]:
    """Text that is no report (no driver, no tool) means no GPU."""
    _, *blocks = _GPU.split(text)
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    return tuple(_state(bus, _told(block)) for bus, block in pairs)


def _told(block: str) -> dict[str, str]:
    """`MIG Mode/Current` -> `Disabled`: headings are told apart by their indentation."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in block.splitlines():
        match = _LINE.match(line)
        if not line.strip() or match is None:
            continue
        indent, name, value = len(match[1]), match[2], match[3]
        above = [(depth, heading) for depth, heading in above if depth < indent]
        if value is None:
            above.append((indent, name))
        else:
            path = "/".join([*(heading for _, heading in above), name])
            if value.strip().lower() not in _NOT_TOLD:
                found[path] = value.strip()
    return found


def _state(bus: str, told: Mapping[str, str]) -> GpuState:
    errors = [
        int(value)
        for path, value in told.items()
        if path.startswith("ECC Errors/Volatile/") and "Uncorrectable" in path and value.isdigit()
    ]
    return GpuState(
        bus=bus.lower(),
        ecc=_on(told.get("ECC Mode/Current") or told.get("Ecc Mode/Current")),
        uncorrected=sum(errors) if errors else None,
        remapping=_remapping(told),
        recovery=_recovery(told),
        mig=_on(told.get("MIG Mode/Current")),
        fabric=_fabric(told),
        used_mib=_mib(told.get("FB Memory Usage/Used")),
    )


def _on(said: str | None) -> bool | None:
    return None if said is None else said == "Enabled"


def _remapping(told: Mapping[str, str]) -> Remapping | None:
    """Drivers since 570 also tell of channels to be repaired, and of memory that cannot be."""
    failed = [told.get(path) for path in _FAILED]
    pending = [told.get(path) for path in _PENDING]
    if not any([*failed, *pending]):
        return None
    return "failed" if "Yes" in failed else "pending" if "Yes" in pending else "none"


def _mib(said: str | None) -> int | None:
    match = re.fullmatch(r"(\d+) MiB", said or "")
    return int(match[1]) if match else None


def _recovery(told: Mapping[str, str]) -> str | None:
    """Drivers before 570 say only whether a reset is due."""
    due = "reset" if told.get("GPU Reset Status/Reset Required") == "Yes" else None
    return told.get("GPU Recovery Action", "").lower() or due


def _fabric(told: Mapping[str, str]) -> Fabric | None:
    state, status = told.get("Fabric/State"), told.get("Fabric/Status")
    health = told.get("Fabric/Health/Summary")
    if state is None:
        return None
    return Fabric(
        state=state.lower(),
        status=status.lower() if status else None,
        healthy=health == "Healthy" if health else None,
    )
