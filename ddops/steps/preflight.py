"""Whether a box fits a deployment: one verdict a subject, each with its fix."""

from __future__ import annotations

from ddops.engines.base import Engine
from ddops.errors import CheckError
from ddops.spec.deployment import Deployment
from ddops.spec.observed import Clock, Glimpse, Port, Python, Service, System
from ddops.spec.source import Hub, parse_source
from ddops.spec.verdict import Verdict, fail, ok, warn
from ddops.steps import packages, preflight_gpu
from ddops.steps.weights import HEADROOM

_GLIBC = (2, 28)  # what wheels of torch are built against (manylinux_2_28)
_KERNEL = (5, 5)  # accelerate names it: older ones were seen to hang
_SKEW_S = (2.0, 60.0)  # logs are hard to compare; signed addresses and certificates are refused
_ROOM = 10_000_000_000  # bytes: an environment with torch for CUDA


def judge(want: Deployment, engine: Engine, seen: Glimpse) -> tuple[Verdict, ...]:
    """In the order in which one would look for a fault."""
    return (
        library(seen.system),
        kernel(seen.system),
        rights(seen.system),
        supervisor(seen.system),
        clock(seen.clock),
        disk(seen),
        interpreter(want, seen, engine),
        outside(want, seen),
        apt(seen),
        *preflight_gpu.judge(want, seen),
        port(seen.port, seen.service),
        units(seen),
    )


def library(machine: System) -> Verdict:
    subject, wanted = "C library", ".".join(map(str, _GLIBC))
    if machine.glibc is None:
        said = f"no glibc: wheels of torch need glibc {wanted}"
    elif _numbers(machine.glibc) < _GLIBC:
        said = f"glibc {machine.glibc}: wheels of torch need {wanted}"
    else:
        return ok(subject, f"glibc {machine.glibc}")
    return fail(subject, said, "install Ubuntu 20.04, Debian 10, RHEL 8 or later")


def kernel(machine: System) -> Verdict:
    release = machine.kernel.removeprefix("Linux ")
    if _numbers(release) >= _KERNEL:
        return ok("kernel", release)
    said = f"{release}: loading a model was seen to hang before 5.5"
    return warn("kernel", said, "upgrade the kernel, and reboot")


def rights(machine: System) -> Verdict:
    if machine.user == "root":
        return ok("rights", "root")
    if machine.root:
        return ok("rights", f"user `{machine.user}`, sudo without a password")
    rule = f"echo '{machine.user} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{machine.user}"
    said = f"user `{machine.user}` may not use sudo without a password: no system service, no apt"
    return warn("rights", said, f"as root on the box, `{rule}`")


def supervisor(machine: System) -> Verdict:
    if machine.pid1 == "systemd" and machine.root:
        return ok("supervisor", "systemd")
    if machine.user_manager:
        said = "the user's own systemd: the service ends when the user logs out"
        return warn(
            "supervisor", said, f"as root on the box, `loginctl enable-linger {machine.user}`"
        )
    said = f"process 1 is {machine.pid1}: ddops keeps the service itself, until the next reboot"
    return warn("supervisor", said, "after a reboot, `ddops deploy BOX`")


def clock(seen: Clock) -> Verdict:
    ahead = abs(seen.ahead_s)
    where = "ahead of" if seen.ahead_s > 0 else "behind"
    said = f"{ahead:.1f} s {where} this machine's"
    fix = "as root on the box, `timedatectl set-ntp true`"
    notice, wrong = _SKEW_S
    if ahead > wrong:
        return fail("clock", f"{said}: signed addresses and certificates are refused", fix)
    if ahead > notice:
        return warn("clock", said, fix)
    if seen.kept is False:
        return warn("clock", f"{said}, but not synchronised", fix)
    return ok("clock", said)


def disk(seen: Glimpse) -> Verdict:
    free = seen.system.disk_free
    said = f"{free / 1e9:.1f} GB free, {seen.to_fetch / 1e9:.1f} GB of weights to fetch"
    fix = "free some space, or set `state_dir` in the inventory to a folder on a larger disk"
    if seen.to_fetch + HEADROOM > free:
        return fail("disk", said, fix)
    if seen.python is None and seen.to_fetch + _ROOM > free:
        return warn("disk", f"{said}, and an environment may need 10 GB", fix)
    return ok("disk", said)


def interpreter(want: Deployment, seen: Glimpse, engine: Engine) -> Verdict:
    if seen.python is None and want.environment:
        said = f"not there yet: to be streamed from {want.environment.source}"
        return warn("Python", said, "`ddops deploy BOX` brings it")
    if seen.complaint:
        fix = f"`{seen.interpreter} --version` on the box, as that user"
        return fail("Python", f"{seen.interpreter} does not run: {seen.complaint}", fix)
    if seen.python is None:
        return fail(
            "Python",
            f"there is no {seen.interpreter}",
            "name an interpreter that has ddops and the engine as `python` in the inventory",
        )
    if seen.broken:
        reasons = "; ".join(f"`import {name}`: {why}" for name, why in seen.broken.items())
        said = f"{seen.python.executable} cannot run {engine.name}: {reasons}"
        return fail("Python", said, f"`{seen.python.executable} -m {engine.install}`")
    return python(seen.python, engine)


def python(seen: Python, engine: Engine) -> Verdict:
    if seen.missing:
        said = f"{seen.executable} cannot run {engine.name}, it lacks {', '.join(seen.missing)}"
        return fail("Python", said, f"`{seen.executable} -m {engine.install}`")
    return ok("Python", f"{seen.version}, torch {seen.torch or 'not needed'}")


def outside(want: Deployment, seen: Glimpse) -> Verdict:
    """Compilers, headers and tools: named when they are missing."""
    if seen.python is None:
        return warn("packages", "what is missing depends on the engine's Python", "see Python")
    pulls = seen.to_fetch > 0 and isinstance(parse_source(want.model.weights.source), Hub)
    try:
        missing = packages.needs(want, seen, pulls=pulls)
        fetched = packages.possible(missing, seen)
    except CheckError as error:
        return fail("packages", error.subject, error.hint)
    if not missing:
        return ok("packages", "nothing is missing")
    names = " ".join(need.package for need in missing)
    if not fetched:
        return warn("packages", f"{names} is missing: done without", f"`apt-get install {names}`")
    return warn("packages", f"{names} is missing", "`ddops deploy BOX` installs it")


def apt(seen: Glimpse) -> Verdict:
    holder = seen.apt_holder
    if "apt-get" not in seen.tools:
        return ok("apt", "not on this system")
    if holder is None:
        return ok("apt", "nobody is at work with it")
    said = f"in use by process {holder.pid} ({holder.program})"
    return warn("apt", said, "let it finish; a deploy waits for it")


def port(seen: Port | None, ours: Service | None) -> Verdict:
    """Our own service may hold it."""
    if seen is None:
        return warn("port", "not known without ddops on the box", "see Python")
    holder = seen.holder
    if holder is None:
        return ok("port", f"{seen.port} is free")
    if ours and holder.pid is not None and holder.pid == ours.pid:
        return ok("port", f"{seen.port} is held by our own service")
    who = f"process {holder.pid} ({holder.program})" if holder.pid else "another user's process"
    fix = "set another `serving.port` in the inventory"
    fix += f", or end it with `kill {holder.pid}`" if holder.pid else ""
    return fail("port", f"port {seen.port} is in use by {who}", fix)


def units(seen: Glimpse) -> Verdict:
    failed = seen.units.failed
    if not failed:
        return ok("services", "none has failed")
    said = f"failed: {', '.join(failed)}"
    return warn("services", said, f"`systemctl status {failed[0]}` on the box says why")


def _numbers(version: str) -> tuple[int, ...]:
    """`6.8.0-50-generic` -> (6, 8)."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
