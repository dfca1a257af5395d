"""The machine: system, processor, memory, disk, and who may do what on it."""

from __future__ import annotations

import re

from ddops.spec.command import Run
from ddops.spec.observed import System

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16")
FLAGS_ARM = ("asimd", "bf16", "i8mm", "sve", "sve2")

# One round trip; each answer under a heading of its own. `df` needs a folder that exists.
_SCRIPT = r"""
say() { printf '\n== %s\n' "$1"; }
say uname; uname -srm
say os; . /etc/os-release 2>/dev/null && echo "$PRETTY_NAME"
say glibc; getconf GNU_LIBC_VERSION 2>/dev/null
say cores; nproc
say cpu; cat /proc/cpuinfo
say memory; cat /proc/meminfo
say disk; d=$1; while [ ! -d "$d" ]; do d=$(dirname "$d"); done; df -PB1 "$d" | tail -n 1
say user; id -un
say pid1; cat /proc/1/comm
say user_manager; systemctl --user show-environment >/dev/null 2>&1 && echo yes
say root; { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; } && echo yes
true
"""


def command(state_folder: str) -> Run:
    return Run(argv=("sh", "-c", _SCRIPT, "sh", state_folder), why="look at the machine")


def parse(text: str) -> System:
    said = {
        heading: body.strip()
        for heading, body in re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", text, re.M | re.S)
    }
    kernel, release, arch = said["uname"].split()
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", said["memory"], re.M))
    flags = set(_cpu(said["cpu"], "flags", "Features").split())
    return System(
        os=said["os"] or kernel,
        kernel=f"{kernel} {release}",
        glibc=said["glibc"].removeprefix("glibc ") or None,
        arch=arch,
        cpu=_cpu(said["cpu"], "model name", "CPU implementer"),
        cpu_flags=tuple(flag for flag in (*FLAGS, *FLAGS_ARM) if flag in flags),
        cores=int(said["cores"]),
        memory=int(memory.get("MemTotal", 0)) * 1024,
        memory_available=int(memory.get("MemAvailable", 0)) * 1024,
        disk_free=int(said["disk"].split()[3]),
        user=said["user"],
        pid1=said["pid1"],
        user_manager=said["user_manager"] == "yes",
        root=said["root"] == "yes",
    )


def _cpu(text: str, *names: str) -> str:
    found = re.search(rf"^(?:{'|'.join(names)})\s*:\s*(.*)$", text, re.M)
    return found[1].strip() if found else "unknown"
