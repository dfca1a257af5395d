"""Weights on a box: bring them there ahead of a deployment, and check what lies there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddops.errors import UsageError
from ddops.facts import offer as offers
from ddops.facts import system
from ddops.facts.look import look_weights
from ddops.flows.history import recorded
from ddops.flows.site import Site
from ddops.flows.voice import Voice
from ddops.host import shards
from ddops.spec.command import Command, Pull
from ddops.spec.deployment import Weights
from ddops.spec.layout import Layout, layout
from ddops.spec.observed import Holding, Offer
from ddops.spec.source import FORMS, OnBox, parse_source
from ddops.steps import weights


@dataclass(frozen=True)
class Wanted:
    """One set of weights, and where it belongs on the box."""

    weights: Weights
    where: Layout


@dataclass(frozen=True)
class Giver:
    """Another box that may have the same weights."""

    site: Site
    folder: str | None  # None: where a deploy there looks for them


@dataclass(frozen=True)
class Fetched:
    source: str
    root: str
    commit: str | None  # of a hub repository from which something was missing
    size: int  # bytes that were missing
    seconds: float


@dataclass(frozen=True)
class Verified:
    source: str
    root: str
    files: int
    size: int  # bytes read
    faults: tuple[str, ...]


def wanted(site: Site, source: str | None, to: str | None) -> list[Wanted]:
    """`source`, or else what the box's inventory names. Raises `UsageError`."""
    if source is None and to is not None:
        raise UsageError("`--to` needs a SOURCE", hint="`ddops model fetch --help`")
    named = _of_inventory(site)
    if source is not None:
        pinned = [one for one in named if one.source == source]
        named = pinned or [_weights(source)]
    found = [Wanted(one, where) for one in named if (where := _place(site, one, to))]
    if source is not None and not found:
        raise UsageError(
            f"`{source}` is where it is: there is nothing to fetch",
            hint=f"name one of {', '.join(FORMS[:3])}",
        )
    return found


def plan(site: Site, one: Wanted) -> list[Command]:
    """Raises `WeightsError` when the source refuses or the disk is too small."""
    seen = look_weights(site.host, one.weights.source, one.where)
    commands = missing(site, one.weights, seen, one.where)
    folder = one.where.root if one.where.listing else one.where.root.rsplit("/", 1)[0]
    disk = system.parse(site.host.run(system.command(folder)).stdout)
    weights.check_disk(commands, disk.disk_free, folder)
    return commands


def missing(site: Site, want: Weights, seen: Holding, where: Layout) -> list[Command]:
    """What brings the weights to `where`, or to their manifests if only those are missing."""
    if weights.complete(want, seen):
        return weights.plan(want, seen, offer=None, where=where, place=site.place)
    seen, found = _offered(site, want, seen, where)
    return weights.plan(want, seen, offer=found, where=where, place=site.place)


def fetch(
    site: Site,
    one: Wanted,
    commands: Sequence[Command],
    voice: Voice,
    *,
    giver: Giver | None = None,
) -> Fetched:
    """Large files of a hub come from `giver`, if it has them and is reached; else from the hub."""
    began = time.monotonic()
    if commands:
        with recorded(site, "model fetch", commands, voice) as do:
            for command in commands:
                if isinstance(command, Pull) and giver:
                    with _nearby(site, one, giver, voice) as near:
                        do(command.model_copy(update={"near": near}))
                else:
                    do(command)
    seconds = time.monotonic() - began
    return Fetched(
        source=one.weights.source,
        root=one.where.root,
        commit=next((one.commit for one in commands if isinstance(one, Pull)), None),
        size=weights.needed(list(commands)),
        seconds=seconds,
    )


def verify(site: Site, one: Wanted, voice: Voice) -> Verified:
    """Reads every byte, whatever the manifests say."""
    want, where = one.weights, one.where
    with voice.step(f"read {where.root}"):
        seen = look_weights(site.host, want.source, where, read_all=True)
        if where.listing and not seen.offer:  # another tool brought them
            found = offers.ask(site.host, site.place, want, where)
            seen = look_weights(site.host, want.source, where, found, read_all=True)
            seen = seen.model_copy(update={"offer": found})
    faults = weights.faults(want, seen)
    lacking = shards.missing(site.host, where.root) if where.listing else []
    named = {name for name, _ in faults}
    faults += [(name, "named by the index, not there") for name in lacking if name not in named]
    return Verified(
        source=want.source,
        root=where.root,
        files=len(seen.artefacts),
        size=sum(one.size for one in seen.artefacts),
        faults=tuple(f"{name}: {what}" for name, what in faults),
    )


@contextmanager
def _nearby(site: Site, one: Wanted, giver: Giver, voice: Voice) -> Iterator[str | None]:
    """The address of the giver's files; None, and a warning, when it has none or is not reached."""
    from ddops.host.giver import Unreachable, giving  # with httpx: 0.1 s that a look need not pay

    there, name = _place(giver.site, one.weights, giver.folder), giver.site.box.name
    assert there, "what is pulled has a place on every box"
    with ExitStack() as stack:
        if look_weights(giver.site.host, one.weights.source, there).offer is None:
            voice.warn(f"box `{name}` has nothing of it in {there.root}: all comes from the hub")
            near = None
        else:
            try:
                near = stack.enter_context(giving(giver.site.host, site.host, there.root))
            except Unreachable as where:
                voice.warn(f"box `{name}` is not reached at {where}: all comes from the hub")
                near = None
        yield near


def _offered(site: Site, want: Weights, seen: Holding, where: Layout) -> tuple[Holding, Offer]:
    """Another tool may have brought files of a repository that nothing is recorded of."""
    if seen.offer:
        return seen, seen.offer
    found = offers.ask(site.host, site.place, want, where)
    if where.listing:
        seen = look_weights(site.host, want.source, where, found)
    return seen, found


def _of_inventory(site: Site) -> list[Weights]:
    wish = site.box.deployment
    named = [wish.model.weights, wish.decoding.drafter]
    return [one for one in named if isinstance(one, Weights)]


def _weights(source: str) -> Weights:
    try:
        parse_source(source)
    except ValueError:
        raise UsageError(
            f"`{source}` is no source of weights", hint=f"valid: {', '.join(FORMS[:3])}"
        ) from None
    return Weights(source=source)


def _place(site: Site, want: Weights, to: str | None) -> Layout | None:
    """None for what nothing can be fetched for."""
    where = layout(want, site.place)
    if where is None or isinstance(parse_source(want.source), OnBox):
        return None
    return where.moved(_folder(site, to)) if to else where


def _folder(site: Site, to: str) -> str:
    if to.startswith("~/"):
        return f"{site.host.home}/{to[2:]}"
    if to.startswith("/"):
        return to.rstrip("/") or "/"
    if site.box.reach.via == "local":
        return str(Path(to).absolute())
    raise UsageError(
        f"`--to {to}` does not say where on box `{site.box.name}`",
        hint="begin it with `/` or `~/`",
    )
