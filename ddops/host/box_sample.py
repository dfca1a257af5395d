"""Sent to a box as text: sample GPUs, CPU and memory beside a service, into a file of JSON lines.

`python3 -I -c TEXT start FILE` with its orders on standard input, then `… stop FILE`, on any Python
3.9 or newer. It goes on when its connection breaks, and ends when it is told to, at its deadline,
or when nobody holds the box's lock any more. `ddops/spec/telemetry.py` says what a line holds.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Protocol

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WATCH_S = 1.0  # how often the lock and the processes of the service are looked for
_END_S = 20.0  # within which a sampler that is told to end has ended


def start(file: Path) -> None:
    """Returns when the first sample is written; nothing to do for one that has these orders."""
    said, told = sys.stdin.read(), file.with_suffix(".orders")
    file.parent.mkdir(parents=True, exist_ok=True)
    out = file.open("a", encoding="utf-8")
    if not alone(out):
        if told.exists() and told.read_text("utf-8") == said:
            return
        end(file, out)  # of a bench that was killed
    told.write_text(said, "utf-8")
    stop_of(file).unlink(missing_ok=True)
    out.truncate(0)
    hears, says = os.pipe()
    if os.fork():
        os.close(says)
        sys.exit(os.read(hears, 4096).decode() or None)
    os.close(hears)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)  # whoever waits for our output must not wait for the end
    try:
        sampler = Sampler(file, out, json.loads(said))
        sampler.sample()
    except (OSError, ValueError, LookupError) as error:
        os.write(says, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(says)
    sampler.run()
    os._exit(0)


def stop(file: Path) -> None:
    """Print all samples. It ended before: what it has written by then."""
    if not file.exists():
        sys.exit("nothing was sampled")
    with file.open("a+", encoding="utf-8") as out:
        end(file, out)
        out.seek(0)
        sys.stdout.write(out.read())


def end(file: Path, out: IO[str]) -> None:
    stop_of(file).touch()
    until = time.monotonic() + _END_S
    while not alone(out) and time.monotonic() < until:
        time.sleep(0.02)


def alone(out: IO[str]) -> bool:
    """Whoever samples into a file holds it."""
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def stop_of(file: Path) -> Path:
    return file.with_suffix(".stop")


class Gpus(Protocol):
    """What `box_gpus` offers."""

    name: str
    gpus: list[list[Any]]  # [index, name, limit in W]
    late_s: float

    def samples(self, now: float) -> list[tuple[float, list[Any]]]: ...

    def running(self, pids: list[int]) -> list[int] | None: ...

    def close(self) -> None: ...


class Sampler:
    def __init__(self, file: Path, out: IO[str], orders: dict[str, Any]) -> None:
        self.stop, self.out, self.orders = stop_of(file), out, orders
        self.service = Service(orders["pid"])
        self.holder = Holder(orders["lock"]) if orders["lock"] else None
        self.looked, self.abandoned = 0.0, False
        self.began = time.monotonic()
        self.ahead = time.time() - self.began  # of the wall clock
        self.why: dict[str, str] = {}  # what cannot be read, and the reason
        self.gpus = self._gpus(module(orders["gpus"]))
        self.packages = self._packages()
        self._write(self._head())

    def sample(self) -> None:
        now = time.monotonic()
        if now - self.looked >= _WATCH_S:
            self.looked = now
            self.service.look()
            self.abandoned = self.holder is not None and self.holder.gone()
            if self.gpus is not None:
                self._write({"t": round(now, 3), "u": self.gpus.running(self.service.pids)})
        for line in self._lines(now):
            self._write(line)

    def run(self) -> None:
        due = time.monotonic()
        while not (why := self._over()):
            due = max(due + self.orders["interval_s"], time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            self.sample()
        time.sleep(self.gpus.late_s if self.gpus else 0.0)  # what it says of now is still to come
        self.sample()
        if self.gpus is not None:
            self.gpus.close()
        now = time.monotonic()
        self._write({"t": round(now, 3), "wall": round(time.time(), 3), "end": why})

    def _over(self) -> str | None:
        """Why it is time to end."""
        if self.stop.exists():
            return "stopped"
        if time.monotonic() - self.began > self.orders["limit_s"]:
            return "deadline"
        return "abandoned" if self.abandoned else None

    def _head(self) -> dict[str, Any]:
        return {
            "t": round(self.began, 3),
            "wall": round(self.began + self.ahead, 3),
            "interval_s": self.orders["interval_s"],
            "cores": len(os.sched_getaffinity(0)),
            "memory": memory()[1],
            "source": self.gpus and self.gpus.name,
            "gpus": self.gpus.gpus if self.gpus is not None else [],
            "packages": self.packages.told if self.packages is not None else [],
            "why": self.why,
        }

    def _lines(self, now: float) -> list[dict[str, Any]]:
        """GPUs on lines of their own: their tool keeps its own time."""
        seen = self.gpus.samples(now) if self.gpus is not None else []
        lines = [{"t": round(at, 3), "g": rows} for at, rows in seen]
        own = os.times()
        energy = {"e": self.packages.energy()} if self.packages is not None else {}
        host = {"c": ticks(), "m": memory()[0], "p": self.service.use()}
        line = {"t": round(now, 3), **energy, **host, "s": round(own.user + own.system, 2)}
        return [*lines, line]

    def _gpus(self, source: ModuleType) -> Gpus | None:
        """The library, else the tool, else None with both reasons."""
        reasons = []
        for reader in (source.Nvml, lambda: source.Smi(self.orders["interval_s"], self.ahead)):
            try:
                opened: Gpus = reader()
            except source.Nothing as nothing:
                reasons.append(str(nothing))
            else:
                if opened.running([]) is None:
                    self.why["processes on GPUs"] = "the driver lists none, so the fullest serve"
                return opened
        self.why["gpus"] = "; ".join(reasons)
        return None

    def _packages(self) -> Packages | None:
        try:
            return Packages(Path(self.orders["powercap"]))
        except OSError as error:
            self.why["packages"] = f"energy_uj cannot be read: {error.strerror}"
        except LookupError as none:
            self.why["packages"] = str(none.args[0])
        return None

    def _write(self, line: dict[str, Any]) -> None:
        self.out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.out.flush()


def module(source: str) -> ModuleType:
    made = ModuleType("gpus")
    exec(source, made.__dict__)
    return made


class Holder:
    """The process that holds the box's lock: it has the file open.

    Not /proc/locks: on the file systems of containers its inode numbers are others than the file's.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.fd = self._find()

    def gone(self) -> bool:
        """Never, where it was not to be seen from the beginning."""
        return self.fd is not None and not self._leads(self.fd)

    def _find(self) -> Path | None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # another user's, or it has ended
                for fd in filter(self._leads, (process / "fd").iterdir()):
                    return fd
        return None

    def _leads(self, fd: Path) -> bool:
        try:
            return os.readlink(fd) == self.path
        except OSError:
            return False


class Packages:
    """The energy counters of the CPU packages: RAPL, as the kernel's powercap tree tells it."""

    def __init__(self, tree: Path) -> None:
        zones = [zone for zone in sorted(tree.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        named = [((zone / "name").read_text("ascii").strip(), zone) for zone in zones]
        packages = [(name, zone) for name, zone in named if name.startswith("package")]
        if not packages:
            raise LookupError("this kernel tells no energy of CPU packages")
        self.files = [zone / "energy_uj" for _, zone in packages]
        self.energy()
        most = "max_energy_range_uj"
        self.told = [[name, int((zone / most).read_text("ascii"))] for name, zone in packages]

    def energy(self) -> list[int]:
        return [int(file.read_text("ascii")) for file in self.files]


class Service:
    """The processes of the service: the one the supervisor knows, and all that it started."""

    def __init__(self, pid: int) -> None:
        self.pid, self.pids = pid, [pid]

    def look(self) -> None:
        self.pids, asked = [], [self.pid]
        while asked:
            pid = asked.pop()
            self.pids.append(pid)
            for told in Path(f"/proc/{pid}/task").glob("*/children"):
                asked += map(int, text(told).split())

    def use(self) -> list[float]:
        """[seconds of CPU time, bytes of memory] of all of them."""
        seconds = resident = 0.0
        for pid in self.pids:
            fields = text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
            if fields:
                seconds += (int(fields[11]) + int(fields[12])) * _TICK_S
                resident += int(fields[21]) * _PAGE
        return [round(seconds, 3), int(resident)]


def text(path: Path) -> str:
    """Empty when the process has ended."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def ticks() -> list[float]:
    """[seconds that cores were busy, seconds that there were]"""
    columns = [int(column) for column in text(Path("/proc/stat")).split("\n", 1)[0].split()[1:9]]
    idle = columns[3] + columns[4]
    return [round((sum(columns) - idle) * _TICK_S, 2), round(sum(columns) * _TICK_S, 2)]


def memory() -> tuple[int, int]:
    """Bytes in use, and in all."""
    found = dict(re.findall(r"^(\w+):\s+(\d+)", text(Path("/proc/meminfo")), re.M))
    total = int(found["MemTotal"]) * 1024
    return total - int(found["MemAvailable"]) * 1024, total


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]](Path(sys.argv[2]))
