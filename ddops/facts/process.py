"""The command line of a process, as the kernel has it."""

from __future__ import annotations

from ddops.spec.command import Run


def command(pid: int) -> Run:
    return Run(argv=("cat", f"/proc/{pid}/cmdline"), why="look what the service was started with")


def parse(text: str) -> tuple[str, ...]:
    """Empty when the process has ended."""
    return tuple(text.rstrip("\0").split("\0")) if text else ()
