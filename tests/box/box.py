"""A real box: systemd as process 1, sshd, its own network; up in 0.3 s, gone without a trace."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.box.rootfs import cache, rootfs
from tests.checkout import ROOT

NEEDED = ("mmdebstrap", "systemd-nspawn", "setpriv", "unshare", "nsenter", "ip", "ssh-keygen")
WITHIN_S = 30.0
_POLL_S = 0.01
_BOOT = Path(__file__).with_name("boot.sh")
_NETWORK = IPv4Address("198.18.0.0")  # the benchmarking range: in use nowhere
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROBE = """
mount -t tmpfs probe /mnt
mkdir /mnt/lower /mnt/upper /mnt/work /mnt/root
mount -t overlay probe -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
ip link add probe0 type veth peer name probe1
"""


def impossible() -> str | None:
    """Why this machine cannot boot a box; None when it can."""
    if os.geteuid() != 0:
        return "a test box needs root"
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        return f"a test box needs {', '.join(missing)}: `make apt` as root installs them"
    if not all(os.access(group.parent, os.W_OK) for group in Box()._groups()):
        return "a test box needs control groups that can be written"
    alone = ("unshare", "--mount", "--net", "--pid", "--fork", "sh", "-ec", _PROBE)
    tried = subprocess.run(alone, capture_output=True, text=True, check=False)
    return f"no test box in this container: {tried.stderr.strip()}" if tried.returncode else None


def shared_paths() -> list[Path]:
    """What a box may see of this machine: the checkout and the Python that runs it."""
    wanted = {ROOT, Path(sys.prefix), Path(sys.base_prefix).resolve()}
    foreign = wanted - {Path("/usr")}  # a box has a /usr of its own, of the same release
    return sorted(p for p in foreign if not any(p.is_relative_to(up) for up in foreign - {p}))


@dataclass
class Box:
    """`with Box() as box: box.run("systemctl", "--version")`. Every box is fresh."""

    share: Sequence[Path] = ()  # seen at the same path, read-only
    behind: Box | None = None  # the only machine that can reach this one; None: this machine
    name: str = field(default_factory=lambda: f"ddt-{secrets.token_hex(3)}")
    _network: IPv4Address = field(default_factory=lambda: _NETWORK + 4 * secrets.randbelow(1 << 14))
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return str(self._network + 2)

    @property
    def gateway(self) -> str:
        """This machine as the box sees it: the only thing it can reach."""
        return str(self._network + 1)

    @property
    def root(self) -> Path:
        """Its files, from outside. An absolute symlink inside leads out of it."""
        return Path(f"/proc/{self._leader().pid}/root")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def run(self, *argv: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command in the box as root, whatever its exit code."""
        return subprocess.run(
            [*self._enter(), *argv],
            input=text or "",  # never this terminal
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def must(self, *argv: str, text: str | None = None) -> str:
        """Its output; a command that fails fails the test."""
        done = self.run(*argv, text=text)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod "$2" "$1"'
        self.must("sh", "-c", script, "sh", path, f"{mode:o}", text=text)

    def link(self, state: str) -> None:
        """Pull the cable (`down`) or plug it in again (`up`), at the box's end."""
        _ip("link", "set", "host0", state, within=self._leader().pid)

    def wait_for_ssh(self) -> None:
        until = time.monotonic() + WITHIN_S
        while not self._answers():
            assert time.monotonic() < until, f"no sshd in {self.name}:\n{self._said()}"
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        if self.behind:
            probe = f"exec 3<>/dev/tcp/{self.address}/22 && head -c 4 <&3"
            return self.behind.run("bash", "-c", probe).stdout == "SSH-"
        with suppress(OSError), socket.create_connection((self.address, 22), 0.2) as probing:
            return probing.recv(4) == b"SSH-"
        return False

    def kill(self) -> None:
        """Pull the plug. Processes, mounts and the network end with the namespaces."""
        if self._process:
            self._process.kill()
            self._process.wait()
            cable = Path(f"/sys/class/net/ve-{self.name}")
            while cable.exists():
                time.sleep(_POLL_S)
        for group in self._groups():
            _remove_group(group)
        self._log.unlink(missing_ok=True)

    def _start(self) -> None:
        for group in self._groups():
            group.mkdir()
        binds = (f"--bind-ro={path}" for path in self.share)
        boot = ("sh", str(_BOOT), str(rootfs()), self.name, *binds)
        alone = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
        # A killed test run takes its boxes with it.
        mortal = ("setpriv", "--pdeathsig", "KILL", "unshare", *alone, "--propagation", "private")
        enter = 'for g in $GROUPS_; do echo $$ > "$g/cgroup.procs"; done; exec "$@"'
        groups = " ".join(str(group) for group in self._groups())
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", enter, "sh", *mortal, *boot],
                env={"PATH": _PATH, "GROUPS_": groups, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,  # a pipe would be held open by the box
                stderr=log,
                start_new_session=True,
            )
        self._plug(self._child(psutil.Process(self._process.pid), "sh"))
        self.wait_for_ssh()

    def _plug(self, shell: psutil.Process) -> None:
        """One cable: to this machine, or to the box in front."""
        near = self.behind._leader().pid if self.behind else os.getpid()
        mine, theirs = f"ve-{self.name}", ("netns", str(shell.pid))
        link = ("type", "veth", "peer", "name", "host0", *theirs)
        _ip("link", "add", mine, "netns", str(near), *link)
        for pid, address, end in ((near, self.gateway, mine), (shell.pid, self.address, "host0")):
            _ip("addr", "add", f"{address}/30", "dev", end, within=pid)
            _ip("link", "set", end, "up", within=pid)

    def _leader(self) -> psutil.Process:
        """Process 1 of the box. A reboot makes another one."""
        assert self._process, "the box is not up"
        shell = self._child(psutil.Process(self._process.pid), "sh")
        return self._child(self._child(shell, "systemd-nspawn"), "systemd")

    def _child(self, parent: psutil.Process, name: str) -> psutil.Process:
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            with suppress(psutil.NoSuchProcess):
                for child in parent.children():
                    if child.name() == name:
                        return child
            time.sleep(_POLL_S)
        raise AssertionError(f"{self.name} does not boot:\n{self._said()}")

    def _enter(self) -> list[str]:
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root")
        clean = ("env", "-i", f"PATH={_PATH}", "HOME=/root", "LANG=C.UTF-8")
        return ["nsenter", "--target", str(self._leader().pid), *spaces, "--wdns=/root", *clean]

    def _groups(self) -> list[Path]:
        """A control group of its own, or nspawn would make its groups in this machine's root."""
        top = Path("/sys/fs/cgroup")
        tops = [top] if (top / "cgroup.procs").exists() else [top / "unified", top / "systemd"]
        return [one / self.name for one in tops if one.is_dir()]

    @property
    def _log(self) -> Path:
        return cache() / f"{self.name}.log"

    def _said(self) -> str:
        return self._log.read_text("utf-8", "replace")[-3000:]


def _ip(*words: str, within: int | None = None) -> None:
    enter = ("nsenter", "--target", str(within), "--net") if within else ()
    subprocess.run([*enter, "ip", *words], check=True)


def _remove_group(group: Path) -> None:
    """The kernel needs a moment to see that a group is empty."""
    until = time.monotonic() + WITHIN_S
    while group.exists():
        inner = sorted((one for one in group.rglob("*") if one.is_dir()), reverse=True)
        with suppress(OSError):
            for one in (*inner, group):
                one.rmdir()
            return
        assert time.monotonic() < until, f"{group} is still in use"
        time.sleep(_POLL_S)
