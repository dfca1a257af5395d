"""Install what a deployment needs from outside Python: only what is missing, with apt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ddops.errors import CheckError, PackagesError
from ddops.spec.command import Run
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Apt, Gpu, Holder, Python, System

LOCK_WAIT_S = 600  # unattended upgrades of a fresh machine were seen to take ten minutes
_COMPILERS = {"gcc", "cc", "clang"}
_PACKAGE_S = 0.5  # to unpack one, synced to the disk: 65 took 34 s on two cores
_BYTES_PER_S = 10e6  # of a mirror that is neither near nor far


class Seen(Protocol):
    """What decides about packages, of everything that is seen of a box."""

    @property
    def system(self) -> System: ...
    @property
    def gpus(self) -> Sequence[Gpu]: ...
    @property
    def tools(self) -> Sequence[str]: ...
    @property
    def python(self) -> Python | None: ...


@dataclass(frozen=True)
class Need:
    package: str
    why: str
    optional: bool = False  # there is another, slower way


def needs(want: Deployment, seen: Seen, *, pulls: bool) -> list[Need]:
    """What is missing. `pulls`: files of a hub repository are to be fetched.

    Raises `CheckError` for headers that no package brings.
    """
    found: list[Need] = []
    if seen.gpus and want.device != "cpu" and not _on_processor(seen.python):
        if not _COMPILERS & set(seen.tools):
            found.append(Need("gcc", "Triton compiles a launcher for its first kernel"))
        if seen.python and not seen.python.headers:
            why = "Triton compiles that launcher against Python.h of the engine's interpreter"
            found.append(Need(_headers(seen.python), why))
    if want.engine == "sglang" and "libnuma.so.1" not in seen.tools:
        found.append(Need("libnuma1", "SGLang's kernels are linked to it"))
    if pulls and "aria2c" not in seen.tools:
        found.append(Need("aria2", "it fetches a file over 16 connections", optional=True))
    return found


def possible(missing: list[Need], seen: Seen) -> list[Need]:
    """What can be installed on this box. Raises `CheckError` when that leaves out a necessity."""
    if not missing or ("apt-get" in seen.tools and seen.system.root):
        return missing
    necessary = [need for need in missing if not need.optional]
    if necessary:
        names = " ".join(need.package for need in necessary)
        reason = (
            f"user `{seen.system.user}` may not become root without a password"
            if "apt-get" in seen.tools
            else "it has no apt"
        )
        raise CheckError(
            f"the box lacks {names}, and ddops cannot install it: {reason}",
            detail="\n".join(f"{need.package}: {need.why}" for need in necessary),
            hint=f"as root on the box, `apt-get install {names}`, or what that is called there",
        )
    return []


def apart(missing: Sequence[Need]) -> list[list[Need]]:
    """Necessities, then conveniences: one that apt does not have must not stop the others."""
    parts = [[need for need in missing if need.optional is optional] for optional in (False, True)]
    return [part for part in parts if part]


def plan(parts: Sequence[tuple[Sequence[Need], Apt]], seen: Seen) -> list[Run]:
    """Each part with what apt said about it; empty when nothing is missing."""
    if not parts:
        return []
    sudo = seen.system.user != "root"
    commands = [_cloud_init()] if any(apt.cloud_init for _, apt in parts) else []
    update = Run(
        argv=(*_apt_get(), "update"),
        why="a mirror soon drops what an old list names",
        title="update apt's lists",
        sudo=sudo,
        may_fail=all(need.optional for part, _ in parts for need in part),
    )
    return [*commands, update, *(_install(part, apt, sudo=sudo) for part, apt in parts)]


def held(holder: Holder | None, waited_s: float) -> PackagesError:
    """The verdict on a lock that was not given back in time."""
    who = "another process"
    if holder and holder.pid:
        who = f"process {holder.pid} ({holder.program or 'unknown'})"
    return PackagesError(
        f"apt's lock is held by {who}, and was not free after {waited_s:.0f} s",
        hint="let it finish, then run the same command again"
        + (f"; `ps -f {holder.pid}` on the box shows what it does" if holder else ""),
    )


def refused(said: str) -> PackagesError | None:
    """The verdict on what apt itself said; None: it was something else."""
    wrong = [line[3:] for line in said.splitlines() if line.startswith("E: ")]
    if not wrong:
        return None
    if any("Unable to locate package" in line for line in wrong):
        hint = "its sources lack the package: add the one that has it, or install it by hand"
    elif any("Failed to fetch" in line or "Unable to fetch" in line for line in wrong):
        hint = "the box does not reach its mirror: check its network, proxy and sources"
    elif any("dpkg was interrupted" in line for line in wrong):
        hint = "`dpkg --configure -a` as root on the box, then the same command again"
    else:
        hint = "set it right on the box, then run the same command again"
    return PackagesError(f"apt refuses: {wrong[0]}", detail="\n".join(wrong[1:]) or None, hint=hint)


def _on_processor(python: Python | None) -> bool:
    """A torch without CUDA compiles nothing for a GPU."""
    return python is not None and python.torch is not None and python.torch_cuda is None


def _headers(python: Python) -> str:
    """The package with the headers of exactly this interpreter."""
    minor = ".".join(python.version.split(".")[:2])
    if python.base != "/usr":
        raise CheckError(
            f"the interpreter below {python.base} has no Python.h, and no package brings it",
            detail="Triton compiles a launcher against it for its first kernel",
            hint="make the environment from an interpreter with headers: the distribution's own"
            f" with python{minor}-dev, or one that uv installed",
        )
    return f"python{minor}-dev"


def _install(part: Sequence[Need], apt: Apt, *, sudo: bool) -> Run:
    names = tuple(need.package for need in part)
    return Run(
        argv=(*_apt_get(), "install", "-y", "--no-install-recommends", *names),
        why="; ".join(f"{need.package}: {need.why}" for need in part),
        title=f"install {' '.join(names)}",
        sudo=sudo,
        timeout_s=LOCK_WAIT_S + 1800.0,
        size=apt.size,
        takes_s=None if apt.size is None else _seconds(apt.count, apt.size),
        may_fail=all(need.optional for need in part),
    )


def _apt_get() -> tuple[str, ...]:
    options = ("-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}")
    return ("env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "apt-get", *options)


def _cloud_init() -> Run:
    """Its exit code says how the first boot went, which is none of ours."""
    return Run(
        argv=("sh", "-c", "cloud-init status --wait >/dev/null; true"),
        why="it installs packages of its own at the first boot",
        title="wait for cloud-init",
        timeout_s=1800.0,
    )


def _seconds(count: int, size: int) -> float:
    return 2 + count * _PACKAGE_S + size / _BYTES_PER_S
