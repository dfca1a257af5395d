"""Bring a whole environment, patches included, to a box: look, refuse or send, prove, switch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddops.errors import CheckError, HostError, UsageError
from ddops.facts import venv
from ddops.flows import packages
from ddops.flows.arrival import Arrival, look_landing
from ddops.flows.caches import bring
from ddops.flows.history import recorded
from ddops.flows.proof import prove
from ddops.flows.site import Site, opened
from ddops.flows.voice import Voice
from ddops.host.base import Host, Progress
from ddops.host.local import Local
from ddops.host.stream import End, Store, send
from ddops.spec.base import Word
from ddops.spec.environment import NOTE, Manifest
from ddops.steps import environment as steps

CONNECTIONS = 8
_TRIES = 3  # in a row that bring nothing new


@dataclass(frozen=True)
class Source:
    """Where an environment comes from."""

    name: str
    host: Host
    interpreter: str  # its own
    caches: str | None = None  # of a box: the kernels that its service compiled

    @property
    def end(self) -> End:
        return End(self.host, self.interpreter)

    def look(self) -> Manifest:
        said = self.host.run(venv.command(self.interpreter))
        if not said.ok:
            raise HostError(
                f"{self.interpreter} of `{self.name}` cannot be looked at",
                detail=said.stderr.strip()[-2000:] or None,
                hint="name a folder with a virtual environment, or a box whose `python` is in one",
            )
        return venv.parse(said.stdout)


@dataclass(frozen=True)
class Streamed:
    manifest: Manifest
    path: str  # on the box
    changed: bool  # false: it was in use already
    sent: int = 0  # bytes of files, before compression
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


@contextmanager
def source_of(name: str) -> Iterator[Source]:
    """A folder of this machine with a virtual environment, or a box by its inventory."""
    folder = Path(name).expanduser()
    if (folder / "pyvenv.cfg").is_file():
        yield Source(name, Local(), str(folder.absolute() / "bin" / "python"))
    elif folder.is_dir():
        raise UsageError(
            f"{name} is no virtual environment: it has no `pyvenv.cfg`",
            hint=f"`python -m venv {name}` makes one",
        )
    else:
        with opened(name) as site:
            yield Source(name, site.host, site.place.engine_python, site.place.caches)


def look(source: Source, voice: Voice) -> Manifest:
    """Raises `CheckError` when it cannot be taken from where it is."""
    with voice.step(f"look at the environment of {source.name}"):
        seen = source.look()
    reasons = steps.unmovable(seen)
    if reasons:
        raise CheckError(
            f"the environment of `{source.name}` cannot be moved",
            detail="\n".join(f"- {reason}" for reason in reasons),
            hint="`python -m venv DIR` makes one that can",
        )
    return seen


def arrive(source: Source, site: Site, voice: Voice) -> Arrival:
    """Raises `CheckError` with every reason why it would not run there."""
    arrival = Arrival(site, look(source, voice))
    arrival.check()
    if not arrival.in_use:
        arrival.packages = packages.planned_for(site, arrival.seen)
    return arrival


@contextmanager
def outstanding(site: Site, voice: Voice) -> Iterator[tuple[Source, Arrival] | None]:
    """What the deployment wants to run in, while the box does not: its source and its place.

    A pinned environment that is in use needs no word with its source.
    """
    wish = site.box.deployment.environment
    used = look_landing(site) if wish else None
    if wish is None or used is None or (wish.identity and _is(wish.identity, used.points_to)):
        yield None
        return
    with source_of(wish.source) as source:
        arrival = arrive(source, site, voice)
        if wish.identity and not _is(wish.identity, arrival.seen.identity):
            raise CheckError(
                f"the environment of `{wish.source}` is not the one that is wanted",
                detail=f"it is  {arrival.seen.identity}\nwanted {wish.identity}",
                hint="set `environment.identity` in the inventory, or remove it",
            )
        yield None if arrival.in_use else (source, arrival)


def _is(pinned: str, identity: str | None) -> bool:
    """Both may be shortened."""
    return identity is not None and pinned[:12] == identity[:12]


def stream(
    source: Source, arrival: Arrival, voice: Voice, *, connections: int = CONNECTIONS
) -> Streamed:
    """Whatever ends it, a second run sends only what has not arrived."""
    began = time.monotonic()
    site, sent = arrival.site, 0
    if arrival.in_use:
        return Streamed(arrival.seen, arrival.path, changed=False)
    with recorded(site, "env stream", [*arrival.packages, arrival.switch], voice) as do:
        packages.install(site, arrival.packages, do, voice)
        if not arrival.there:
            sent = _bring(source, arrival, voice, connections)
            with voice.step("compile to bytecode"):
                arrival.compile()
        with voice.step("prove that it works"):
            notes = prove(source.host, source.interpreter, arrival)
        if source.caches:
            with voice.step("bring compiled kernels"):
                fault = bring(source.end, source.caches, arrival.end, site.place.caches)
            notes += [fault] if fault else []
        arrival.note()
        do(arrival.switch)
    arrival.prune()
    seconds = time.monotonic() - began
    return Streamed(
        arrival.seen, arrival.path, changed=True, sent=sent, seconds=seconds, notes=tuple(notes)
    )


def _bring(source: Source, arrival: Arrival, voice: Voice, connections: int) -> int:
    """Until every file is there and is what it should be. Returns the bytes of what was sent."""
    store = Store(arrival.stage, arrival.codec)
    sent, tries, damaged = 0, 0, 0
    faults = ["its large files are not what was looked at"]
    while tries < _TRIES and damaged < _TRIES:
        wanted = arrival.wanted()
        if not wanted:
            with voice.step(f"build {arrival.path}"):
                sound = arrival.assemble()
            if sound:
                return sent
            damaged += 1
            continue
        tally = _Tally(sum(piece.length for piece in wanted))
        shards = steps.shards(wanted, connections)
        title = f"stream {tally.total / 1e6:.1f} MB over {len(shards)} connections"
        with voice.step(title, of="bytes") as progress:
            tally.progress = progress
            faults = send(source.end, arrival.end, shards, store, tally.add)
        sent += tally.done
        tries = 0 if tally.done else tries + 1
    raise HostError(
        f"the environment of `{source.name}` does not arrive whole",
        detail="\n".join(sorted(set(faults))[:5]) or None,
        hint="run the same command again, while nobody works in it: what has come is kept",
    )


class _Tally:
    """Sums what the connections say they brought."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.progress: Progress = lambda done, total: None
        self._lock = threading.Lock()

    def add(self, length: int) -> None:
        with self._lock:
            self.done += length
            self.progress(self.done, self.total)


class Sound(Word):
    """A look at the environment in use that found nothing wrong."""

    path: str
    files: int


def verify(site: Site, voice: Voice) -> Sound:
    """Raises `CheckError` naming what is no longer what was proven."""
    there = look_landing(site)
    path = f"{site.place.environments}/{there.points_to}"
    text = site.host.read(f"{path}/{NOTE}") if there.points_to else None
    if text is None:
        raise CheckError(
            f"box `{site.box.name}` has no environment that ddops put there",
            hint=f"`ddops env stream SRC {site.box.name}`",
        )
    with voice.step("read every file again"):
        seen = Source(site.box.name, site.host, f"{path}/bin/python").look()
    differing = steps.differing(Manifest.model_validate_json(text), seen)
    if differing:
        shown = [*differing[:20], *([f"and {len(differing) - 20} more"] if differing[20:] else [])]
        raise CheckError(
            f"{len(differing)} files of {path} are not what they were when it was proven",
            detail="\n".join(shown),
            hint=f"`ddops env stream SRC {site.box.name}` puts another beside it",
        )
    return Sound(path=path, files=len(seen.files))
