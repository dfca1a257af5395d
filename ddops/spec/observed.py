"""What was seen on a box. Values only; `facts/` fills them, `steps/` plans from them."""

from __future__ import annotations

from typing import Literal

from ddops.spec.base import Word
from ddops.spec.hardware import Hardware

SupervisorKind = Literal["systemd", "systemd-user", "background"]
ServiceState = Literal["absent", "stopped", "starting", "running", "failed"]


class System(Word):
    os: str  # PRETTY_NAME of os-release
    kernel: str
    glibc: str | None  # None: another C library, for which no wheels of the engine exist
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
    base: str  # the prefix of the interpreter that an environment was made from
    headers: bool  # Python.h is there: Triton compiles a launcher against it
    engine: bool  # the module of the wished engine is there
    torch: str | None
    torch_cuda: str | None  # the CUDA that torch was built for; None: for none
    missing: tuple[str, ...]  # modules that the engine needs and that are not installed


class Gpu(Word):
    index: int
    name: str
    memory_mib: int
    driver: str
    compute_capability: str
    power_limit_w: float | None


class Units(Word):
    """Names of services, without their ending."""

    running: tuple[str, ...]
    failed: tuple[str, ...]


class Stored(Word):
    path: str
    size: int  # bytes on the disk


class Venv(Word):
    path: str
    python: str  # its version


class Stock(Word):
    weights: tuple[Stored, ...]
    venvs: tuple[Venv, ...]


class Artefact(Word):
    """A file as it lies on the box. A folder is one artefact without a digest."""

    path: str
    size: int  # bytes
    sha256: str | None  # of its content now
    recorded: str | None  # its sha256 when it was put there; None: no manifest beside it
    mtime_ns: int
    part: bool  # not there yet: the size is what an earlier run has brought


class Offered(Word):
    """One file that a source offers. What is None is not known before it is fetched."""

    name: str  # below the folder of the weights
    url: str | None
    size: int | None  # bytes
    sha256: str | None
    blob: str | None = None  # git's digest, for a file that a repository holds itself


class Offer(Word):
    """What a source has, resolved: the files, or the archive that holds the file."""

    source: str
    commit: str | None = None  # of a hub repository: what its revision was when it was asked
    files: tuple[Offered, ...]
    archive: Offered | None = None


class Holding(Word):
    """The place of one set of weights on the box, and what lies there."""

    source: str
    root: str  # what the engine is given: a file or a folder
    artefacts: tuple[Artefact, ...]
    offer: Offer | None  # as recorded when the weights were fetched (hub sources)

    def at(self, path: str) -> Artefact | None:
        return next((one for one in self.artefacts if one.path == path), None)


class Holder(Word):
    pid: int | None  # None: a process of another user
    program: str | None


class Port(Word):
    port: int
    holder: Holder | None  # None: free


class Apt(Word):
    """What apt would do for some packages, and who stands in its way."""

    count: int  # packages that it would fetch, with what they need
    size: int | None  # bytes; None: its lists do not name them yet
    cloud_init: bool  # at work still: it installs packages of its own
    holder: Holder | None  # of apt's or dpkg's lock


class Supervisor(Word):
    """Who keeps the service."""

    kind: SupervisorKind
    sudo: bool  # changing it needs `sudo`


class Service(Supervisor):
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
    hardware: Hardware
    tools: tuple[str, ...]  # programs and libraries from outside Python, of those that may matter
    model: Holding
    drafter: Holding | None  # None: the deployment's drafter is no file of the box
    port: Port
    service: Service
    health: Health


class Surveyed(Observed):
    """And what else is on the box. No part of a record: it names other work than ours."""

    units: Units
    stock: Stock


class Clock(Word):
    ahead_s: float  # of ours; negative: behind it
    kept: bool | None  # synchronised with a time server; None: the box does not tell


class Glimpse(Word):
    """What a preflight judges. None: there is no interpreter of ours to find out with."""

    system: System
    clock: Clock
    gpus: tuple[Gpu, ...]
    hardware: Hardware
    tools: tuple[str, ...]
    apt_holder: Holder | None
    units: Units
    to_fetch: int  # bytes of weights that are not there, as far as the inventory says their size
    interpreter: str  # the path where the engine's is looked for
    complaint: str | None  # of that interpreter, when it is there and does not run
    python: Python | None
    broken: dict[str, str]  # modules that are installed and cannot be imported, and why
    port: Port | None
    service: Service | None
