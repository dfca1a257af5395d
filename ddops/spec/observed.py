"""What was seen on a box. Values only; `facts/` fills them, `steps/` plans from them."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word

SupervisorKind = Literal["systemd", "systemd-user", "background"]
ServiceState = Literal["absent", "stopped", "starting", "running", "failed"]


class System(Word):
    os: str  # PRETTY_NAME of os-release
    kernel: str
    arch: str
    cpu: str  # model name
    cpu_flags: tuple[str, ...]  # only those that change the speed of inference
    cores: int  # that this user may run on
    memory: int  # bytes
    memory_available: int  # bytes
    disk_free: int  # bytes, on the file system of the state folder
    user: str
    pid1: str  # name of process 1
    user_manager: bool  # `systemd --user` answers
    root: bool  # this user is root, or may become it without a password


class Python(Word):
    """The interpreter that would run the engine."""

    executable: str
    version: str
    engine: bool  # `ddtree` can be imported
    torch: str | None
    missing: tuple[str, ...]  # modules of the runtime extra that are not installed


class Gpu(Word):
    index: int
    name: str
    memory_mib: int
    driver: str
    compute_capability: str
    power_limit_w: float | None


class Manifest(Word):
    """Written beside a file when it was checked, so that a second look is cheap."""

    size: int  # bytes
    sha256: str
    mtime_ns: int
    source: str  # a URL, or archive#member


class Artefact(Word):
    """A file as it lies on the box. `sha256` is None when it could not be known."""

    path: str
    size: int
    sha256: str | None


class Holder(Word):
    pid: int | None  # None: a process of another user
    program: str | None


class Port(Word):
    port: int
    holder: Holder | None  # None: free


class Service(Word):
    kind: SupervisorKind
    state: ServiceState
    pid: int | None  # of the engine
    uptime_s: float | None
    restarts: int  # since it was last started on purpose
    exit_code: int | None  # of the last process that ended
    unit_sha256: str | None  # of the unit as it lies on the box
    env_sha256: str | None  # of the file with its secrets


class Health(Word):
    alive: bool  # /health answers 200
    ready: bool  # /ready answers 200
    status: str  # what /ready says: ready, loading, warming, draining; or why nothing answers


class Observed(Word):
    system: System
    python: Python
    gpus: tuple[Gpu, ...]
    weights: tuple[Artefact, ...]  # of the deployment's model and drafter, those that are there
    port: Port
    service: Service
    health: Health
