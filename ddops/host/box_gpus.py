"""Sent to a box as text, with the orders of `box_sample`: read what its GPUs do.

On any Python 3.9 or newer. A row of a GPU is its index, the eight values of `_SMI` in watts, %, %,
MiB, MHz, MHz, bits and degrees, and the driver's own count of mJ. None: it does not tell.
"""

from __future__ import annotations

import ctypes
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Any, TypeVar

Row = list[Any]
_T = TypeVar("_T")
_SMI = (
    "power.draw.instant",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "clocks.sm",
    "clocks.mem",
    "clocks_event_reasons.active",
    "temperature.gpu",
)
_OLDER = (
    ("power.draw.instant", "power.draw"),
    ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
)
_INSTANT_POWER, _ENERGY = 186, 83  # NVML_FI_DEV_*: plain power is a mean over a second since Ampere
_CSV = "--format=csv,noheader,nounits"


class Nothing(Exception):
    """There is nothing to be read here; the text says why."""


class Nvml:
    """The driver's library, through its maker's own binding."""

    name = "nvml"
    late_s = 0.0

    def __init__(self) -> None:
        try:
            import pynvml  # of nvidia-ml-py, where the engine's environment has it
        except ImportError:
            raise Nothing("nvidia-ml-py is not installed") from None
        self.nv: Any = pynvml
        try:
            pynvml.nvmlInit()
            count = range(pynvml.nvmlDeviceGetCount())
            self.handles = [(i, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in count]
        except pynvml.NVMLError as error:
            raise Nothing(str(error)) from None
        self.gpus = [[index, *self._what(handle)] for index, handle in self.handles]

    def samples(self, now: float) -> list[tuple[float, list[Row]]]:
        """One of all GPUs; one that does not answer at all is left out."""
        found = [[index, *self._row(handle)] for index, handle in self.handles]
        return [(now, [row for row in found if any(value is not None for value in row[1:])])]

    def running(self, pids: list[int]) -> list[int] | None:
        """The GPUs that one of these processes calculates on; None where none tells of processes.

        Told by the numbers that the driver's own side knows: in a container those may be others.
        """
        told = {index: self._processes(handle) for index, handle in self.handles}
        if all(found is None for found in told.values()):
            return None
        return [index for index, found in told.items() if not set(found or ()).isdisjoint(pids)]

    def close(self) -> None:
        self.nv.nvmlShutdown()

    def _what(self, handle: object) -> list[Any]:
        name = self._ask(lambda: self.nv.nvmlDeviceGetName(handle))
        limit = self._ask(lambda: self.nv.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
        return [name.decode() if isinstance(name, bytes) else name, limit]

    def _row(self, handle: object) -> Row:
        nv = self.nv
        power, energy = self._fields(handle)
        if power is None:
            power = self._ask(lambda: nv.nvmlDeviceGetPowerUsage(handle))
        use = self._ask(lambda: nv.nvmlDeviceGetUtilizationRates(handle))
        return [
            None if power is None else power / 1000,
            use and use.gpu,
            use and use.memory,
            self._memory(handle),
            self._ask(lambda: nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM)),
            self._ask(lambda: nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_MEM)),
            self._throttles(handle),
            self._ask(lambda: nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU)),
            energy,
        ]

    def _fields(self, handle: object) -> tuple[int | None, int | None]:
        found = self._ask(
            lambda: self.nv.nvmlDeviceGetFieldValues(handle, [_INSTANT_POWER, _ENERGY])
        )
        power, energy = found or (None, None)
        return (
            power.value.uiVal if power is not None and not power.nvmlReturn else None,
            energy.value.ullVal if energy is not None and not energy.nvmlReturn else None,
        )

    def _memory(self, handle: object) -> int | None:
        """The older question, the only one before 510, adds what the driver keeps to itself."""
        nv = self.nv
        held = self._ask(lambda: nv.nvmlDeviceGetMemoryInfo(handle, nv.nvmlMemory_v2))
        held = held or self._ask(lambda: nv.nvmlDeviceGetMemoryInfo(handle))
        return held and round(held.used / 2**20)

    def _processes(self, handle: object) -> list[int] | None:
        found = self._ask(lambda: self.nv.nvmlDeviceGetComputeRunningProcesses(handle))
        return None if found is None else [process.pid for process in found]

    def _throttles(self, handle: object) -> int | None:
        """Drivers before 535, and bindings for them, have the older name alone."""
        bits = self._ask(lambda: self.nv.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if bits is None:
            bits = self._ask(lambda: self.nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return None if bits is None else int(bits)

    def _ask(self, question: Callable[[], _T]) -> _T | None:
        try:
            return question()
        except (self.nv.NVMLError, AttributeError):
            return None


class Smi:
    """The driver's own tool in its loop. A terminal makes it write each line at once."""

    name = "nvidia-smi"

    def __init__(self, interval_s: float, ahead: float) -> None:
        """`ahead`: of the wall clock, by which the tool stamps its lines."""
        told = [split(line) for line in _smi("--query-gpu=index,name,power.limit,uuid") or ()]
        if not told:
            raise Nothing("nvidia-smi tells of no GPU, or is not installed")
        self.gpus = [[int(row[0]), row[1], number(row[2])] for row in told]
        self.uuids = [(int(row[0]), row[3]) for row in told]
        self.processes = _smi("--query-compute-apps=gpu_uuid,pid")
        self.ahead, self.late_s = ahead, 2 * interval_s
        self.heard: list[tuple[float, list[Row]]] = []
        loop = f"--loop-ms={interval_s * 1e3:.0f}"
        ours, its = pty.openpty()
        self.process = subprocess.Popen(
            ["nvidia-smi", f"--query-gpu=timestamp,index,{_names()}", _CSV, loop],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )
        os.close(its)
        threading.Thread(target=self._read, args=(os.fdopen(ours),), daemon=True).start()

    def samples(self, now: float) -> list[tuple[float, list[Row]]]:
        """Those since the last call, at the times that the tool gave them."""
        heard, self.heard = self.heard, []
        return heard

    def running(self, pids: list[int]) -> list[int] | None:
        """As it was in the beginning: the tool is a process for each question."""
        if self.processes is None:
            return None
        own = {str(pid) for pid in pids}
        held = {row[0] for row in map(split, self.processes) if row[-1] in own}
        return [index for index, uuid in self.uuids if uuid in held]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _read(self, out: IO[str]) -> None:
        try:
            for line in out:
                stamp, index, *values = split(line)
                row = [int(index), *map(number, values), None]
                self.heard.append((when(stamp) - self.ahead, [row]))
        except (OSError, ValueError):
            return  # the other end of a terminal closes with an error


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _names() -> str:
    """What this driver calls the values: one name it does not know refuses the whole query."""
    names = ",".join(_SMI)
    if _smi(f"--query-gpu={names}") is None:
        for new, old in _OLDER:
            names = names.replace(new, old)
    return names


def _smi(query: str) -> list[str] | None:
    try:
        said = subprocess.run(
            ["nvidia-smi", query, _CSV],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.decode().splitlines() if said.returncode == 0 else None


def split(line: str) -> list[str]:
    return [value.strip() for value in line.split(",")]


def number(said: str) -> float | None:
    """None for what a GPU does not tell: `[N/A]`, `[Not Supported]`."""
    if said.startswith("0x"):
        return int(said, 16)
    return float(said) if re.fullmatch(r"[\d.]+", said) else None


def when(stamp: str) -> float:
    """`2026/11/30 01:02:03.456`, in the box's own time zone, as seconds since 1970."""
    whole, _, part = stamp.partition(".")
    return time.mktime(time.strptime(whole, "%Y/%m/%d %H:%M:%S")) + float(f"0.{part or 0}")
