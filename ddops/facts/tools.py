"""Programs and libraries from outside Python, of those that a deployment may need."""

from __future__ import annotations

from ddops.spec.command import Run

PROGRAMS = ("gcc", "cc", "clang", "aria2c", "numactl", "apt-get", "cloud-init", "systemd-analyze")
LIBRARIES = ("libnuma.so.1",)

_SCRIPT = r"""
for program in $1; do command -v "$program" >/dev/null && echo "$program"; done
for library in $2; do
  { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -qwF "$library" && echo "$library"
done
true
"""
COMMAND = Run(
    argv=("sh", "-c", _SCRIPT, "sh", " ".join(PROGRAMS), " ".join(LIBRARIES)),
    why="look for compilers and tools",
)


def parse(text: str) -> tuple[str, ...]:
    return tuple(text.split())
