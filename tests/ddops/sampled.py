"""Made-up samples whose energy is known: power, counters and use follow from the time alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from ddops.spec.telemetry import Window

BEGAN: Final = 1000.0  # on the clock of the sampler
WINDOW: Final = Window(opened=BEGAN + 1.0, length_s=10.0, clock_error_s=0.01)
LIMIT_W: Final = 700.0
WRAP: Final = 262_143_328_850

Line = dict[str, Any]


def constant(t: float) -> float:
    return 400.0


def ramp(t: float) -> float:
    """0 W as the window opens, 10 W more each second."""
    return 10 * (t - WINDOW.opened)


def text(
    *,
    gpus: int = 1,
    watts: Callable[[float], float] = constant,
    packages: bool = False,
    seconds: float = 12.0,
    change: Callable[[Line], Line | None] = lambda line: line,
    **head: Any,
) -> str:
    """GPU n draws `watts` / 2**n and is busy 100, 50, ... %; a package draws 50 W; the service
    takes 1.5 cores of 2. `change` alters or drops lines."""
    first = {
        "t": BEGAN,
        "wall": BEGAN + 5e8,
        "interval_s": 0.1,
        "cores": 2,
        "memory": 8 << 30,
        "source": "nvml" if gpus else None,
        "gpus": [[index, "NVIDIA H200", LIMIT_W] for index in range(gpus)],
        "packages": [["package-0", WRAP]] if packages else [],
        "why": {},
        **head,
    }
    steps = round(seconds * 10) + 1
    times = [round(BEGAN + step / 10, 3) for step in range(steps)]
    lines: list[Line] = []
    for t in times:
        if gpus:
            lines.append({"t": t, "g": [row(index, t, watts) for index in range(gpus)]})
        lines.append(host(t, packages=packages))
    last = {"t": times[-1], "wall": times[-1] + 5e8, "end": "stopped"}
    kept = [changed for line in lines if (changed := change(line)) is not None]
    return "".join(json.dumps(line) + "\n" for line in (first, *kept, last))


def row(index: int, t: float, watts: Callable[[float], float]) -> list[float | None]:
    drawn = watts(t) / 2**index
    counted = round(1e3 * 400 / 2**index * (t - BEGAN))
    busy = 100 // 2**index
    return [index, drawn, busy, busy / 2, 80_000 >> index, 1980, 3201, 0, 60, counted]


def host(t: float, *, packages: bool) -> Line:
    since = t - BEGAN
    energy = {"e": [round(WRAP - 100e6 + 50e6 * since) % WRAP]} if packages else {}
    use = {"c": [1.8 * since, 2 * since], "m": 2 << 30, "p": [1.5 * since, 1 << 30]}
    return {"t": t, **energy, **use, "s": 0.004 * since}
