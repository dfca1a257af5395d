"""A Python program of unknown intent, run where it can do no harm.

bubblewrap gives it a file system of its own (the interpreter to read, a small /tmp to write,
nothing of the user's at all), no network, and a process namespace that dies with its first
process. Limits are the kernel's. Without bubblewrap nothing is run: `missing` says why.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_NOBODIES: Final = (
    2_000_000_000  # from here on no user has an id: one each, so none counts another's
)
_NEEDS: Final = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
_TAIL: Final = 2000  # characters of output that are kept
_PYTHON: Final = "/python"  # where the interpreter is inside: its home may be closed to nobody


@dataclass(frozen=True)
class Limits:
    wall_s: float = 20.0
    cpu_s: int = 10
    memory: int = 512 << 20  # bytes of address space, of each process
    disk: int = 32 << 20  # bytes below /tmp, and of output
    files: int = 64  # open at once, of each process
    processes: int = 8


@dataclass(frozen=True)
class Ran:
    """`code` is None when the time was over: everything it had started was killed."""

    code: int | None
    output: str  # the end of stdout and stderr, as they came


def missing() -> str | None:
    """Why no program can be run here; None where it can."""
    for program, package in _NEEDS.items():
        if shutil.which(program) is None:
            return f"{package} is not installed"
    ran = run("", Limits())
    if ran.code == 0:
        return None
    return f"bubblewrap cannot make a sandbox here: {ran.output.strip() or 'no reason given'}"


def run(program: str, limits: Limits) -> Ran:
    """`program` is Python's text; it finds the standard library and nothing that was installed."""
    argv = (*_outside(limits), *_walls(limits), *_inside(limits), *_python())
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output:
        source.write(program.encode(errors="replace"))
        source.seek(0)
        process = subprocess.Popen(
            argv,
            stdin=source,
            stdout=output,
            stderr=output,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limits.wall_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        return Ran(code, _tail(output))


def _outside(limits: Limits) -> tuple[str, ...]:
    return (
        "prlimit",
        f"--cpu={limits.cpu_s}",
        f"--as={limits.memory}",
        f"--fsize={limits.disk}",
        f"--nofile={limits.files}",
        "--core=0",
        "--",
    )


def _walls(limits: Limits) -> Iterator[str]:
    """Root needs no user namespace, and keeps two capabilities to become nobody with."""
    yield from ("bwrap", "--die-with-parent", "--new-session", "--clearenv")
    if os.geteuid() == 0:
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
        yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    else:
        yield "--unshare-all"
    yield from ("--ro-bind", "/usr", "/usr", "--ro-bind", sys.base_prefix, _PYTHON)
    yield from ("--setenv", "LD_LIBRARY_PATH", f"{_PYTHON}/lib")  # of an interpreter built shared
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        if Path("/", name).is_symlink():
            yield from ("--symlink", str(Path("/", name).readlink()), f"/{name}")
        elif Path("/", name).is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for file in ("/etc/ld.so.cache", "/etc/ld.so.conf"):
        yield from ("--ro-bind-try", file, file)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(limits.disk), "--tmpfs", "/tmp")
    yield from ("--remount-ro", "/", "--chdir", "/tmp", "--setenv", "HOME", "/tmp")


def _inside(limits: Limits) -> Iterator[str]:
    """Processes are counted in the namespace: outside, the user's others would count too."""
    if os.geteuid() == 0:
        nobody = str(_NOBODIES + os.getpid())
        yield from ("setpriv", "--reuid", nobody, "--regid", nobody, "--clear-groups")
        yield from ("--bounding-set", "-all", "--no-new-privs")
    yield from ("prlimit", f"--nproc={limits.processes}", "--")


def _python() -> tuple[str, ...]:
    """The interpreter itself, not that of a venv: nothing installed is there."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (f"{_PYTHON}/bin/{name}", "-I", "-S", "-B", "-")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole session; what has left it dies with the process namespace."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 4 * _TAIL))
    return output.read().decode(errors="replace")[-_TAIL:]
