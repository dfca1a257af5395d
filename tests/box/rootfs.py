"""The file tree of a test box: built once from this machine's own apt sources, then kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = (
    "aria2",
    "ca-certificates",
    "curl",
    "dbus",
    "dbus-user-session",  # with it and the next a user has a manager of their own
    "iproute2",
    "libpam-systemd",
    "openssh-server",
    "python3",  # with it come the libraries that the bind-mounted interpreter is linked to
    "rsync",
    "sudo",
    "systemd",
    "systemd-sysv",
    "zstd",
)
DPKG_OPTIONS = (
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "force-unsafe-io",  # fsync of every file took half of the time
)
HOOKS = (
    'echo ddbox > "$1/etc/hostname"',
    'mkdir -p "$1/var/log/journal"',  # so that the journal outlives a reboot
    'install -D -m600 "$DDOPS_KEY.pub" "$1/root/.ssh/authorized_keys"',
    'chmod 700 "$1/root/.ssh"',
)
SOURCES = (
    "sources.list.d/debian.sources",
    "sources.list.d/ubuntu.sources",
    "sources.list",
)


def cache() -> Path:
    """Outside the checkout: the tree holds 200 MB and the name of a mirror."""
    named = os.environ.get("DDOPS_TEST_CACHE")
    return Path(named or "~/.cache/ddops-tests").expanduser().absolute()


def key() -> Path:
    """The private key that opens every test box, made on the first use."""
    path = cache() / "id_ed25519"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        make = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test box", "-f", str(path))
        subprocess.run(make, check=True)
    return path


def rootfs() -> Path:
    """The tree, built when this recipe was never built here: about a minute, 220 MB."""
    recipe = repr((PACKAGES, DPKG_OPTIONS, HOOKS, _suite()))
    path = cache() / f"rootfs-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:  # two test runs at once build it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _build(path)
    return path


def _build(path: Path) -> None:
    half = path.with_name(f"{path.name}.part")
    shutil.rmtree(half, ignore_errors=True)  # of a build that was cut short
    done = subprocess.run(
        [
            "mmdebstrap",
            "--variant=minbase",
            "--mode=root",
            "--format=directory",
            f"--include={','.join(PACKAGES)}",
            *(f"--dpkgopt={option}" for option in DPKG_OPTIONS),
            *(f"--customize-hook={hook}" for hook in HOOKS),
            _suite(),
            str(half),
            *(str(source) for source in _sources()),
        ],
        env={**os.environ, "DDOPS_KEY": str(key())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"mmdebstrap failed:\n{done.stderr[-3000:]}"
    half.rename(path)


def _suite() -> str:
    said = Path("/etc/os-release").read_text("utf-8")
    names = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return names.get("VERSION_CODENAME", "stable").strip('"')


def _sources() -> list[Path]:
    """The distribution's own sources; other vendors' bring nothing that a box needs."""
    found = [Path("/etc/apt", name) for name in SOURCES]
    return [path for path in found if path.is_file() and path.stat().st_size]
